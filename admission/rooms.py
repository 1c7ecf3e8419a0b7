"""Rooms as Postgres keeps them: what operators set, change by hand, read and list, each change noted for good."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg
import msgspec
import orjson

from admission.room_settings import ROOM_NAME, RoomSettings, check_relations, our_names, phase_of, read_settings
from chassis.database import Connection, Pool, read_text
from chassis.http import invalid_fields
from chassis.problems import Problem

ACTIONS_MAX = 200
COMMITTED_MS = 5_000  # before the pre-queue: time for a changed commitment to be made and seen before anybody enters
OPENED = ("open", "paused", "closed")


@dataclass(frozen=True, slots=True)
class Room:
    """A room: `epoch` numbers its sales."""

    name: str
    epoch: int
    settings: RoomSettings


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands of a room that has begun: how it orders its line, and whether it has opened."""

    ordered_by: str | None
    opened: bool


class Rooms:
    """The rooms of this installation; `actor` in each change is who is noted to have made it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(self, name: str, settings: RoomSettings, *, actor: str = "command line") -> Room:
        """Create the room or change its settings; the same settings twice change nothing.

        Every worker acts on them within two seconds. Raises Problem invalid: a bad name, settings that contradict each
        other, another order of the line, or for a room that has opened another opening: people hold places by them.
        """
        if not ROOM_NAME.fullmatch(name):
            raise invalid_fields([("", f"{name!r} is no room name: use a-z, 0-9 and dashes, at most 40 characters")])
        check_relations(settings)
        return await self._change(name, lambda _: settings, actor, "put")

    async def change(self, name: str, fields: Mapping[str, object], *, actor: str, action: str = "change") -> Room:
        """Change some settings of an existing room and leave the others. Raises Problem not-found, and invalid as `put`."""

        def changed(present: RoomSettings | None) -> RoomSettings:
            if present is None:
                raise Problem("not-found", f"There is no room {name[:64]!r}.")
            return read_settings({**msgspec.to_builtins(present), **our_names(fields)})

        return await self._change(name, changed, actor, action)

    async def reset(self, name: str, epoch: int, *, actor: str) -> Room:
        """End `epoch` and begin the next, as a draft: its tickets, places and passes end, its proofs stay public.

        Raises Problem not-found, and invalid when the room is in another epoch: a repeat ends nothing.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(read_text("admission", "sql", "lock_room.sql"), name)
            ended = await connection.fetchval(read_text("admission", "sql", "reset_room.sql"), name, epoch)
            if ended is not None:
                await note_action(connection, actor, "reset", name, {"ended": epoch})
        room = await self.get(name)
        if ended is None:
            raise invalid_fields([("/epoch", f"the room is in epoch {room.epoch}: nothing was ended")])
        return room

    async def get(self, name: str) -> Room:
        """The room with that name. Raises Problem not-found."""
        rows = await self._pool.fetch(read_text("admission", "sql", "read_rooms.sql"), name)
        if not rows:
            raise Problem("not-found", f"There is no room {name[:64]!r}.")
        return room_of(rows[0])

    async def list(self) -> list[Room]:
        """All rooms by name."""
        return [room_of(row) for row in await self._pool.fetch(read_text("admission", "sql", "read_rooms.sql"), None)]

    async def actions(self, name: str | None, before: int | None = None) -> Sequence[dict[str, Any]]:
        """What operators did, newest first, 200 at most; `before` an id goes on from there."""
        rows = await self._pool.fetch(read_text("admission", "sql", "read_actions.sql"), name, before, ACTIONS_MAX)
        return [{**row, "detail": orjson.loads(row["detail"])} for row in rows]

    async def _change(
        self, name: str, wanted: Callable[[RoomSettings | None], RoomSettings], actor: str, action: str
    ) -> Room:
        async with self._pool.acquire() as connection, connection.transaction():
            now: datetime = await connection.fetchval(read_text("admission", "sql", "lock_room.sql"), name)
            row = await connection.fetchrow(read_text("admission", "sql", "read_rooms.sql"), name)
            before = None if row is None else room_of(row)
            settings = wanted(None if before is None else before.settings)
            if before is not None and before.settings == settings:
                return before
            if row is not None and before is not None:
                refused = refusals(before.settings, settings, _standing(row), now.timestamp() * 1000)
                if refused:
                    raise invalid_fields(refused)
            epoch = await connection.fetchval(read_text("admission", "sql", "put_room.sql"), name, _json(settings))
            if before is not None and phase_of(before.settings, now.timestamp() * 1000) != "draft":
                await connection.execute(read_text("admission", "sql", "keep_commitment.sql"), name, epoch)
            if before is not None and before.settings.beacon != settings.beacon:
                await _commit_anew(connection, name, epoch)
            old = {} if before is None else msgspec.to_builtins(before.settings)
            new = msgspec.to_builtins(settings)
            changed = {field: value for field, value in new.items() if field not in old or old[field] != value}
            await note_action(connection, actor, "create" if before is None else action, name, changed)
        return Room(name, epoch, settings)


async def note_action(
    connection: Connection, actor: str, action: str, room: str | None, detail: Mapping[str, object]
) -> None:
    """Note what an operator did, in the transaction that does it."""
    await connection.execute(
        read_text("admission", "sql", "note_action.sql"), actor, action, room, orjson.dumps(detail).decode()
    )


def room_of(row: asyncpg.Record) -> Room:
    """The room in a row of read_rooms.sql."""
    stored = orjson.loads(row["settings"])
    fields = {name: stored[name] for name in RoomSettings.__struct_fields__}
    return Room(row["name"], row["epoch"], msgspec.convert(fields, RoomSettings))


def refusals(present: RoomSettings, wanted: RoomSettings, standing: Standing, now_ms: float) -> list[tuple[str, str]]:
    """Which settings may not become what is wanted, and why (pure)."""
    refused: list[tuple[str, str]] = []
    ordered = standing.ordered_by
    if ordered is not None and wanted.method in ("draw", "fifo") and wanted.method != ordered:
        refused.append(("/method", f"places are given by {ordered} until the room is reset"))
    if wanted.beacon != present.beacon and ordered is not None:
        soon_ms = now_ms + COMMITTED_MS
        if phase_of(present, soon_ms) != "draft" or phase_of(wanted, soon_ms) != "draft":
            refused.append(("/beacon", "the draw is committed to what it was when its pre-queue began"))
    if standing.opened or phase_of(present, now_ms) in OPENED:
        for field, why in (("prequeue_at", "its pre-queue is over"), ("opens_at", "that stands")):
            if getattr(wanted, field) != getattr(present, field):
                refused.append((f"/{field}", f"the room has opened already: {why}"))
        if not refused and phase_of(wanted, now_ms) not in OPENED:
            refused.append(("/phase", "the room has opened already: pause, close or reset it"))
    return refused


async def _commit_anew(connection: Connection, name: str, epoch: int) -> None:
    """Withdraw the draw's commitment. Raises Problem invalid once somebody has entered, in whatever phase the room is now."""
    if not await connection.fetchval(read_text("admission", "sql", "withdraw_commitment.sql"), name, epoch):
        raise invalid_fields([("/beacon", "people have entered: the draw is committed to what it was before")])


def _standing(row: asyncpg.Record) -> Standing:
    return Standing(row["ordered_by"], row["opened_at"] is not None)


def _json(settings: RoomSettings) -> str:
    return msgspec.json.encode(settings).decode()
