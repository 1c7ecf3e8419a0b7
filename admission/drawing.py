"""The leader's part of the draw: commits, closes the entries, roots them, waits for the beacon, and draws.

Each stage stands in Postgres, with its moment, before the next begins; a crash at any of them resumes there. The tree's
chunks are worked out while entries come, so that little is left to do at the close.
"""

import asyncio
import secrets

import structlog

from admission.beacon import Beacons
from admission.book import View
from admission.calling import Observed, may_call
from admission.draw import SECRET_BYTES, commitment
from admission.entries import Entries
from admission.line import keys
from admission.merkle import CHUNK_LEAVES, chunk_leaves, chunk_length, chunks_of, root, split
from admission.redis_bond import RedisBond
from admission.rooms import Room
from admission.stages import BEACON_SECONDS_MAX, Draw, beacon_json, beacon_words, draw_of
from chassis.database import Pool, read_text
from chassis.seal import SealBroken, seal, unseal

STEP_CHUNKS_MAX = 40
log = structlog.get_logger()


class Drawing:
    """Takes draws from stage to stage."""

    def __init__(self, pool: Pool, bond: RedisBond, master_key: bytes) -> None:
        self._pool = pool
        self._bond = bond
        self._master_key = master_key
        self._beacons = Beacons()
        self._chunks_kept: dict[tuple[str, int], int] = {}
        self.entries = Entries(pool, bond)

    async def begin(self, room: Room) -> None:
        """Begin the room's epoch: its draw's secret is in Postgres before its hash is published anywhere."""
        secret, beacon = secrets.token_bytes(SECRET_BYTES), room.settings.beacon
        await self._pool.execute(
            read_text("admission", "sql", "open_room.sql"),
            room.name,
            room.epoch,
            seal(self._master_key, secret, _purpose(room)),
            commitment(secret, room.name, room.epoch, beacon_words(beacon)),
            "draw" if room.settings.method == "draw" else "fifo",
            beacon_json(beacon),
        )

    async def keep_entries(self, view: View, generation: str, term: int, issued: int) -> int:
        """Bring entries and full chunks of leaves into Postgres: the entry up to which all of `issued` are there."""
        if view.ordered_by != "draw" or view.draw is None or view.draw.entries_closed_at is not None:
            return issued
        kept = await self.entries.keep(view, generation, term)
        known = issued if kept is None else min(issued, kept)
        await self._keep_chunks(view, known // CHUNK_LEAVES * CHUNK_LEAVES, self._chunks_kept.get(_name(view), 0))
        return known

    async def advance(self, view: View, generation: str, term: int, observed: Observed) -> int | None:
        """How many entries were drawn; None before, when it takes the draw as far as it can go now. Raises LineAway."""
        if view.layout.drawn is not None:
            return view.layout.drawn.entries
        room, draw = view.room, view.draw
        assert view.handle is not None
        assert draw is not None
        answer = await self._bond.run(
            "close", view.handle.redis_identity, keys(room.name, room.epoch, "line"), (generation,)
        )
        if answer[0] != "closed" or not may_call(room.settings, observed.now_ms):
            return None
        if draw.entries_closed_at is None:
            if await self.entries.keep(view, generation, term) is not None:
                return None  # more than one step can bring over
            await self._record(view, term, "close_entries", answer[1])
            draw = await self._read(room)
        if draw.root is None and draw.last_entry is not None:
            await self._root(view, term, draw.last_entry)
            draw = await self._read(room)
        if draw.root is not None and draw.beacon_at is None and draw.beacon is not None:
            await self._ask_beacon(view, term, draw)
            draw = await self._read(room)
        if draw.root is not None and draw.drawn_at is None and (draw.beacon is None or draw.beacon_at is not None):
            await self._draw(view, term, draw)
            draw = await self._read(room)
        return draw.entries

    async def close(self) -> None:
        """Stop waiting for beacons."""
        await self._beacons.close()

    async def _keep_chunks(self, view: View, last_entry: int, first_chunk: int) -> bool:
        """Work out the chunks of leaves 1 … last_entry that are not kept, from `first_chunk` on; whether all are kept now."""
        room, chunks = view.room, chunks_of(last_entry)
        if first_chunk >= chunks:
            return True
        missing = await self._pool.fetch(
            read_text("admission", "sql", "missing_chunks.sql"),
            room.name,
            room.epoch,
            first_chunk,
            chunks,
            STEP_CHUNKS_MAX,
        )
        for row in missing:
            chunk, length = row["chunk"], chunk_length(last_entry, row["chunk"])
            first = chunk * CHUNK_LEAVES + 1
            client_ids = {
                entry["entry"]: entry["client_id"] for entry in await self.entries.read(view, first, first + length - 1)
            }
            leaves = chunk_leaves(room.name, room.epoch, chunk, length, client_ids)
            await self._pool.execute(
                read_text("admission", "sql", "keep_chunk.sql"),
                room.name,
                room.epoch,
                chunk,
                leaves,
                root(split(leaves)),
                row["leaves_restored"],
            )
            await asyncio.sleep(0)  # a chunk's hashes take milliseconds: others on this loop go between
        if len(missing) < STEP_CHUNKS_MAX:
            self._chunks_kept[_name(view)] = last_entry // CHUNK_LEAVES
            return True
        return False

    async def _root(self, view: View, term: int, last_entry: int) -> None:
        """Record the root once all chunks are there."""
        room = view.room
        if await self._keep_chunks(view, last_entry, 0):
            rows = await self._pool.fetch(read_text("admission", "sql", "read_chunk_roots.sql"), room.name, room.epoch)
            if len(rows) == chunks_of(last_entry):
                await self._record(view, term, "set_root", root([row["root"] for row in rows]))

    async def _ask_beacon(self, view: View, term: int, draw: Draw) -> None:
        """Record the beacon's value if it has come, or go on without it where that was committed to and the time has come."""
        assert draw.beacon is not None
        value = self._beacons.value(draw.beacon)
        if value is None and draw.beacon.fallback == "wait":
            return
        if await self._record(view, term, "set_beacon", value, BEACON_SECONDS_MAX):
            log.info("beacon recorded", room=view.room.name, round=draw.beacon.round, missed=value is None)
            self._beacons.forget(draw.beacon)

    async def _draw(self, view: View, term: int, draw: Draw) -> None:
        assert draw.root is not None
        room = view.room
        sealed = await self._pool.fetchval(read_text("admission", "sql", "read_draw_secret.sql"), room.name, room.epoch)
        try:
            secret = unseal(self._master_key, sealed, _purpose(room))
        except SealBroken:  # this room waits for the right key; the others go on
            log.error("the draw's secret was sealed with another master key", room=room.name)  # noqa: TRY400
            return
        if await self._record(view, term, "close_draw", secret + draw.root + (draw.beacon_value or b"")):
            log.info("places drawn", room=room.name, entries=draw.last_entry)

    async def _record(self, view: View, term: int, verb: str, *values: object) -> bool:
        """Record a stage by the SQL file of that name; whether it stands now by this call."""
        assert view.handle is not None
        recorded = await self._pool.fetchval(
            read_text("admission", "sql", f"{verb}.sql"),
            view.room.name,
            view.room.epoch,
            view.handle.generation,
            term,
            *values,
        )
        return recorded is True

    async def _read(self, room: Room) -> Draw:
        row = await self._pool.fetchrow(read_text("admission", "sql", "read_draw.sql"), room.name, room.epoch)
        assert row is not None
        return draw_of(row)


def _name(view: View) -> tuple[str, int]:
    return view.room.name, view.room.epoch


def _purpose(room: Room) -> str:
    return f"draw {room.name} {room.epoch}"
