"""Rooms as Postgres keeps them: what operators set, read and list."""

from dataclasses import dataclass

import asyncpg
import msgspec

from admission.room_settings import ROOM_NAME, RoomSettings, check_relations
from chassis.database import Pool, read_text
from chassis.http import invalid_fields
from chassis.problems import Problem


@dataclass(frozen=True, slots=True)
class Room:
    """A room: `epoch` numbers its sales."""

    name: str
    epoch: int
    settings: RoomSettings


class Rooms:
    """The rooms of this installation."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(self, name: str, settings: RoomSettings) -> Room:
        """Create the room or change its settings; the same settings twice change nothing.

        Every worker acts on them within two seconds. Raises Problem invalid: a bad name, another method, or for a room
        that has opened another opening, since the places that people hold were given by them.
        """
        if not ROOM_NAME.fullmatch(name):
            raise invalid_fields([("", f"{name!r} is no room name: use a-z, 0-9 and dashes, at most 40 characters")])
        check_relations(settings)
        row = await self._pool.fetchrow(read_text("admission", "sql", "put_room.sql"), name, *_values(settings))
        if row is None:
            raise invalid_fields(_standing(settings, (await self.get(name)).settings))
        return Room(name, row["epoch"], settings)

    async def get(self, name: str) -> Room:
        """The room with that name. Raises Problem not-found."""
        rows = await self._pool.fetch(read_text("admission", "sql", "read_rooms.sql"), name)
        if not rows:
            raise Problem("not-found", f"There is no room {name}.")
        return room_of(rows[0])

    async def list(self) -> list[Room]:
        """All rooms by name."""
        return [room_of(row) for row in await self._pool.fetch(read_text("admission", "sql", "read_rooms.sql"), None)]


def room_of(row: asyncpg.Record) -> Room:
    """The room in a row of read_rooms.sql."""
    fields = {name: row[name] for name in RoomSettings.__struct_fields__}
    return Room(row["name"], row["epoch"], msgspec.convert({**fields, "skus": tuple(row["skus"])}, RoomSettings))


def _standing(wanted: RoomSettings, present: RoomSettings) -> list[tuple[str, str]]:
    """Which settings may not become what is wanted."""
    reasons = {
        "method": "the method of a room stands: places were given by it",
        "prequeue_at": "the room has opened: its pre-queue is over",
        "opens_at": "the room has opened already",
    }
    return [(f"/{name}", why) for name, why in reasons.items() if getattr(wanted, name) != getattr(present, name)]


def _values(settings: RoomSettings) -> list[object]:
    values = {**msgspec.structs.asdict(settings), "skus": list(settings.skus)}
    return [values[name] for name in RoomSettings.__struct_fields__]
