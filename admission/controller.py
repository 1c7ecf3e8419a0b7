"""The leader of all lines: each half second it opens, draws, calls and records, room by room.

Any gateway worker may lead, one at a time by lease. What it writes names its term in Postgres and in Redis, so that a
leader that slept past its lease changes nothing when it wakes.
"""

from contextlib import suppress

import structlog

from admission.book import ISSUE_CHUNK, Book, View
from admission.calling import Observed, Segment, may_call, plan_segment, stands_by
from admission.drawing import Drawing
from admission.line import EPOCH_KEYS, keys, stock_key
from admission.pacing import DOOR_MS_MIN, Pacing
from admission.recovery import begin_generation, enter_late_claims, read_claim, save_claims, settings_fields
from admission.redis_bond import LineAway, RedisBond
from admission.rooms import Room
from admission.stock_signal import read_signal
from admission.tickets import Kind
from chassis.database import Pool, read_text
from chassis.leases import Lease

PRUNED_MAX = 5_000
DRAINED_MAX = 1_000
log = structlog.get_logger()


class Controller:
    """Steps every room's line while it holds the lease."""

    def __init__(self, pool: Pool, bond: RedisBond, book: Book, lease: Lease, master_key: bytes) -> None:
        self._pool = pool
        self._bond = bond
        self._book = book
        self._lease = lease
        self._drawing = Drawing(pool, bond, master_key)

    async def run_once(self) -> int:
        """Step every room once; how many were stepped. One room's failing store does not keep the others."""
        term = await self._lease.hold()
        if term is None:
            return 0
        stepped = 0
        for view in await self._book.read():
            try:
                await self.step(view, term)
            except LineAway as away:
                log.warning("line waits for Redis", room=view.room.name, reason=away.detail)
            else:
                stepped += 1
        return stepped

    async def prune(self) -> None:
        """Forget rows that can no longer matter; any worker may do it at any time."""
        await self._pool.execute(read_text("admission", "sql", "prune_line.sql"), PRUNED_MAX)
        for view in self._book.views.values():
            if view.room.epoch > 1 and view.reachable:
                await self._forget_epoch(view, view.room.epoch - 1)

    async def _forget_epoch(self, view: View, ended: int) -> None:
        """Free what Redis still keeps of an ended epoch: entrants of a million are tens of megabytes."""
        with suppress(LineAway):
            identity = self._bond.identity_of(view.room.name)
            await self._bond.run("forget_epoch", identity, keys(view.room.name, ended, *EPOCH_KEYS), ())

    async def release(self) -> None:
        """Let another worker lead at once."""
        await self._drawing.close()
        await self._lease.release()

    async def step(self, view: View, term: int) -> None:
        """One step of one room: begin it, restore it, or call further. Raises LineAway."""
        room = view.room
        if view.handle is None or view.draw is None:
            await self._drawing.begin(room)
            return
        identity = self._bond.identity_of(room.name)
        if identity is None:
            raise LineAway("nobody answers")
        if view.handle.redis_identity != identity:
            await self._recover(view, term)
            return
        generation = str(view.handle.generation)
        observed = await self._observe(view, generation)
        if observed is None:
            await self._recover(view, term)
            return
        if await enter_late_claims(self._pool, self._bond, view):
            return  # the next step calls with them counted
        entries_known = await self._drawing.keep_entries(view, generation, term, observed.entries)
        drawn = await self._drawing.advance(view, generation, term, observed)
        places = None
        if drawn is not None and may_call(room.settings, observed.now_ms):
            places = view.layout.places_issued(drawn, observed.numbers)
        pacing = observed.pacing or await self._known_pacing(room)
        segment, pacing = plan_segment(observed, room.settings, places, pacing)
        dormant = stands_by(room.settings, observed, places)
        # A room that a join has woken since it was observed stays awake.
        dozing = () if dormant and observed.dormant else ("dormant", "1" if dormant else "0")
        if not await self._record(view, term, observed, segment, pacing, entries_known, opened=places is not None):
            raise LineAway("another leader is at work")
        limits = await self._raise_limits(view, observed)
        await self._bond.run(
            "step",
            view.handle.redis_identity,
            keys(room.name, room.epoch, "line", "calls", "ended", "pacing"),
            (generation, str(term), str(segment.clock_ms), pacing.encode(), *_fields(view, segment, limits), *dozing),
        )
        await self._drain(view, generation, term)

    async def _recover(self, view: View, term: int) -> None:
        """Begin a new generation, once all that is known of entries stands in both stores."""
        if await self._drawing.entries.salvage(view, term):
            await begin_generation(self._pool, self._bond, view.room, term)

    async def _observe(self, view: View, generation: str) -> Observed | None:
        """The line as Redis has it, or None where this Redis holds another generation."""
        assert view.handle is not None
        names = (
            *("line", "slots", "claims", "forget", "extended", "claimed", "doubtful", "lapsed", "turns"),
            "pacing",
        )
        answer = await self._bond.run(
            "observe",
            view.handle.redis_identity,
            (*keys(view.room.name, view.room.epoch, *names), stock_key(view.room.name)),
            (generation, str(DOOR_MS_MIN)),
            may_be_absent=True,
        )
        if answer[0] == "generation":
            return None
        free, held, queue_share, latency_ms, age_ms, *shown = answer[17:]
        return Observed(
            now_ms=answer[1],
            reached=float(answer[2]),
            called=answer[3],
            active=answer[4],
            doubtful=answer[5],
            tokens=float(answer[6]),
            door=answer[7],
            entries=answer[8],
            numbers=answer[9],
            over=answer[10],
            clock_ms=answer[11],
            stepped_ms=answer[12],
            entries_closed=answer[13] == 1,
            dormant=answer[14] == 1,
            arrivals_left=float(answer[15]),
            pacing=Pacing.decode(answer[16]) if answer[16] else None,
            stock=read_signal(free, held, age_ms, queue_share, latency_ms),
            shown=tuple(shown),
        )

    async def _known_pacing(self, room: Room) -> Pacing:
        """What Postgres knows of a line whose Redis was lost."""
        known = await self._pool.fetchval(read_text("admission", "sql", "read_pacing.sql"), room.name, room.epoch)
        return Pacing() if known is None else Pacing.decode(known)

    async def _record(
        self,
        view: View,
        term: int,
        observed: Observed,
        segment: Segment,
        pacing: Pacing,
        entries_known: int,
        *,
        opened: bool,
    ) -> bool:
        assert view.handle is not None
        recorded = await self._pool.fetchval(
            read_text("admission", "sql", "record_progress.sql"),
            view.room.name,
            view.room.epoch,
            view.handle.generation,
            term,
            entries_known,
            observed.numbers,
            segment.called_max,
            observed.over,
            segment.clock_ms,
            opened,
            segment.base,
            segment.call_rate,
            segment.since_ms,
            segment.valid_until_ms,
            pacing.lasting().encode(),
        )
        return recorded is True

    async def _raise_limits(self, view: View, observed: Observed) -> tuple[int, int]:
        """The limits, raised ahead of need, so that a join seldom waits for Postgres."""
        assert view.handle is not None
        limits: dict[Kind, int] = {"entry": view.entry_limit, "number": view.number_limit}
        issued_of: dict[Kind, int] = {"entry": observed.entries, "number": observed.numbers}
        for kind, issued in issued_of.items():
            if limits[kind] - issued < ISSUE_CHUNK // 2 and (kind == "number" or not observed.entries_closed):
                row = await self._book.raise_limit(view, kind, limits[kind])
                limits = {"entry": row["entry_limit"], "number": row["number_limit"]}
        return limits["entry"], limits["number"]

    async def _drain(self, view: View, generation: str, term: int) -> None:
        """Bring the claims since the last step into Postgres."""
        assert view.handle is not None
        saved = 0
        while True:
            outcome, *unsaved = await self._bond.run(
                "drain",
                view.handle.redis_identity,
                keys(view.room.name, view.room.epoch, "line", "unsaved"),
                (generation, str(term), str(saved), str(DRAINED_MAX)),
            )
            if outcome == "term":
                raise LineAway("another leader is at work")
            if not unsaved:
                return
            await save_claims(self._pool, view.room, [read_claim(text) for text in unsaved])
            saved = len(unsaved)


def _fields(view: View, segment: Segment, limits: tuple[int, int]) -> list[str]:
    fields = settings_fields(view.room.settings) | {
        "base": repr(segment.base),
        "since_ms": str(segment.since_ms),
        "valid_until_ms": str(segment.valid_until_ms),
        "call_rate": repr(segment.call_rate),
        "called_max": str(segment.called_max),
        "rate_per_minute": repr(segment.pace_per_minute),
        "calling": segment.calling,
        "entry_limit": str(limits[0]),
        "number_limit": str(limits[1]),
        "passed_over": str(view.layout.passed_over),
    }
    return [text for pair in fields.items() for text in pair]
