"""What one worker knows about every room: settings, limits, draw and gaps from Postgres, figures from Redis.

Read again each half second, so that no buyer's request needs Postgres, and a live change reaches every worker in time.
While a store is away the last reading stays.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import asyncpg
import msgspec
import structlog

from admission.draw import draw_key
from admission.line import Figures, Handle, Line
from admission.outflow import UNSEEN, Outflow, Reading
from admission.places import Drawn, Gap, Layout
from admission.redis_bond import LineAway, RedisBond
from admission.room_settings import phase_of
from admission.rooms import Room, room_of
from admission.stages import Draw, draw_of
from admission.tickets import Kind
from chassis.database import Pool, read_text
from chassis.problems import Problem, busy

ISSUE_CHUNK = 10_000  # more than join in a second, so that a join seldom waits for Postgres; what a loss leaves unissued costs nothing
UNKNOWN_ROOM_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class View:
    """A room as this worker knows it. `handle` is None before a leader has begun the room.

    `figures` were read at `figures_at` (this process's monotonic clock); `reachable` says whether Redis answered last time,
    `away_since` since when it has not; `outflow` is how the line moved, as this worker saw it.
    """

    room: Room
    handle: Handle | None
    entry_limit: int
    number_limit: int
    ordered_by: str | None
    draw: Draw | None
    layout: Layout
    figures: Figures | None = None
    figures_at: float = 0.0
    reachable: bool = False
    outflow: Outflow = UNSEEN
    away_since: float | None = None
    admitted_away: int = 0

    @property
    def now_ms(self) -> float:
        """Unix milliseconds by Redis's clock, carried on by ours; by ours alone before Redis ever answered."""
        if self.figures is None:
            return time.time() * 1000
        return self.figures.read_ms + (time.monotonic() - self.figures_at) * 1000

    @property
    def called(self) -> int:
        """The last place that is called now."""
        return 0 if self.figures is None else self.figures.called_at(self.now_ms)

    @property
    def issued(self) -> int:
        """How many places there are."""
        if self.figures is None:
            return 0
        if self.layout.drawn is None:
            return self.layout.entries_issued(self.figures.entries)
        return self.layout.places_issued(self.layout.drawn.entries, self.figures.numbers)

    @property
    def waiting(self) -> int:
        """How many places are not called yet."""
        return max(0, self.issued - self.called)


log = structlog.get_logger()


class Book:
    """The rooms by name, as of the last `refresh`."""

    def __init__(self, pool: Pool, bond: RedisBond) -> None:
        self._pool = pool
        self._bond = bond
        self._line = Line(bond)
        self._views: Mapping[str, View] = {}
        self._read_at = 0.0

    @property
    def views(self) -> Mapping[str, View]:
        """All rooms by name."""
        return self._views

    async def view(self, name: str) -> View:
        """The room called `name`; one that is unknown is looked for in Postgres a few times a second at most.

        Raises Problem not-found.
        """
        view = self._views.get(name)
        if view is None and time.monotonic() - self._read_at > UNKNOWN_ROOM_SECONDS:
            self._keep(await self.read())
            view = self._views.get(name)
        if view is None:
            self.require_read()
            raise Problem("not-found", f"There is no room {name[:64]!r}.")
        return view

    def require_read(self) -> None:
        """Raise Problem busy until the rooms have been read once: what is not known yet may well exist."""
        if not self._read_at:
            raise busy("The rooms are not read yet. Try again shortly.")

    async def refresh(self) -> None:
        """Read rooms and figures. Raises what asyncpg raises while Postgres is away; Redis's absence is noted instead."""
        try:
            self._keep(await self.read())
        finally:
            await self._read_figures()

    async def read(self) -> list[View]:
        """All rooms as Postgres has them now, without figures."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(read_text("admission", "sql", "read_rooms.sql"), None)
            gap_rows = await connection.fetch(read_text("admission", "sql", "read_gaps.sql"))
        self._read_at = time.monotonic()
        gaps: dict[tuple[str, str], list[Gap]] = {}
        for row in gap_rows:
            gaps.setdefault((row["room"], row["kind"]), []).append(Gap(row["first"], row["last"]))
        views = []
        for row in rows:
            try:
                views.append(_view(row, gaps))
            except (msgspec.ValidationError, ValueError):  # one bad row must not stop the other rooms
                log.exception("a room cannot be read", room=row["name"])
        return views

    async def raise_limit(self, view: View, kind: Kind, reached: int) -> asyncpg.Record:
        """Let more entries or numbers be issued: the new limits. Raises LineAway when the generation has passed on."""
        assert view.handle is not None
        row = await self._pool.fetchrow(
            read_text("admission", "sql", "raise_limit.sql"),
            view.room.name,
            view.room.epoch,
            view.handle.generation,
            reached,
            ISSUE_CHUNK,
            kind,
        )
        if row is None:
            raise LineAway("it is being restored")
        known = self._views.get(view.room.name)
        if known is not None and known.handle == view.handle:
            self._keep([replace(known, entry_limit=row["entry_limit"], number_limit=row["number_limit"])], whole=False)
        return row

    def _keep(self, views: list[View], *, whole: bool = True) -> None:
        """Take over what Postgres says, and keep the figures of rooms whose epoch goes on."""
        kept = {} if whole else dict(self._views)
        for view in views:
            before = self._views.get(view.room.name)
            goes_on = before is not None and before.room.epoch == view.room.epoch
            kept[view.room.name] = _with_figures(view, before) if before is not None and goes_on else view
        self._views = kept

    async def _read_figures(self) -> None:
        """Read every begun room's figures; a room that Redis cannot tell of keeps its last ones, marked unreachable."""
        read: dict[str, tuple[Figures, float] | None] = dict.fromkeys(self._views)
        with suppress(LineAway):  # of one node, perhaps: the others' rooms are read all the same
            await self._bond.renew()
        for name, view in list(self._views.items()):
            if view.handle is not None:
                with suppress(LineAway):
                    read[name] = (await self._line.read(view.handle), time.monotonic())
        self._views = {name: _noted(view, read.get(name)) for name, view in self._views.items()}


def _with_figures(view: View, before: View) -> View:
    return replace(
        view,
        figures=before.figures,
        figures_at=before.figures_at,
        reachable=before.reachable,
        outflow=before.outflow,
        away_since=before.away_since,
    )


def _noted(view: View, read: tuple[Figures, float] | None) -> View:
    if read is None:
        return replace(view, reachable=False, away_since=view.away_since or time.monotonic())
    view = replace(view, figures=read[0], figures_at=read[1], reachable=True, away_since=None)
    settings, now_ms = view.room.settings, view.now_ms
    is_open = phase_of(settings, now_ms, dormant=read[0].dormant) == "open" and settings.method in ("draw", "fifo")
    reading = Reading(now_ms, view.called, flowing=is_open and view.layout.drawn is not None and view.waiting > 0)
    return replace(view, outflow=view.outflow.noted(reading, settings.rate_per_minute))


def _view(row: asyncpg.Record, gaps: Mapping[tuple[str, str], list[Gap]]) -> View:
    room = room_of(row)
    draw = None if row["commitment"] is None else draw_of(row)
    drawn = None
    if row["ordered_by"] == "fifo":
        drawn = Drawn(0, b"")
    elif draw is not None and draw.material is not None and draw.entries is not None:
        drawn = Drawn(draw.entries, draw_key(draw.material, room.name, room.epoch, draw.entries))
    begun = row["generation"] is not None
    return View(
        room=room,
        handle=Handle(room.name, room.epoch, row["generation"], row["redis_identity"]) if begun else None,
        entry_limit=row["entry_limit"] if begun else 0,
        number_limit=row["number_limit"] if begun else 0,
        ordered_by=row["ordered_by"],
        draw=draw,
        admitted_away=row["admitted_away"] or 0,
        layout=Layout(
            room.name, room.epoch, drawn, gaps.get((room.name, "entry"), ()), gaps.get((room.name, "number"), ())
        ),
    )
