"""Measures a large draw on the real gateway, and what a waiter costs Redis before and after the opening."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.asyncio import Redis

from admission.draw import draw_key, drawn_place
from admission.line import keys
from admission.merkle import CHUNK_LEAVES
from admission.room_settings import RoomSettings
from admission.rooms import Rooms
from chassis.database import Pool
from loadtest.bench.ground import bench_sql
from loadtest.bench.load import LoadError

ROOM = "bench-draw"
OPENS_SECONDS_MAX, PLACE_MICROSECONDS_MAX = 1.0, 50.0
BYTES_BEFORE_MAX, BYTES_AFTER_MAX = 150.0, 100.0
PLACES_TRIED = 20_000
FILL_ENTRIES = 50_000  # what a statement fills within its time
TRIES_MAX, TRY_SECONDS = 2_400, 0.1


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure that has a limit of its own, whatever the machine's floor."""

    what: str
    value: float
    unit: str
    limit: float

    @property
    def met(self) -> bool:
        """Whether it is within its limit."""
        return self.value < self.limit


async def begin_draw(pool: Pool) -> None:
    """A room whose entries are open until a hand opens it."""
    settings = RoomSettings(
        title="Bench draw", method="draw", phase="prequeue", rate_per_minute=600_000, turn_seconds=3600
    )
    await Rooms(pool).put(ROOM, settings, actor="bench")


async def bytes_a_waiter(redis: Redis, room: str, counter: str) -> float:
    """What all of a room's keys cost Redis for each that `counter` (entries or numbers) has counted."""
    line = keys(room, 1, "line")[0]
    waiters = int(await redis.hget(line, counter) or 0)
    if not waiters:
        raise LoadError(f"nobody has joined {room}")
    total = 0
    async for key in redis.scan_iter(match=keys(room, 1, "*")[0]):
        total += int(await redis.memory_usage(key, samples=0) or 0)
    return total / waiters


async def measure_draw(pool: Pool, redis: Redis, entries: int) -> list[Fact]:
    """Fill the room to so many entries, open it by hand, and see how long the draw took, and a place takes."""
    line = keys(ROOM, 1, "line")[0]
    entries = max(entries, int(await redis.hget(line, "entries") or 0))  # those who joined over HTTP are among them
    for first in range(1, entries + 1, FILL_ENTRIES):
        await pool.execute(bench_sql("fill_entries.sql"), ROOM, first, min(first + FILL_ENTRIES - 1, entries))
    await redis.hset(line, mapping={"entries": str(entries), "entry_limit": str(entries)})
    await until(lambda: _chunked(pool, entries // CHUNK_LEAVES), "the leaves are kept")
    started = time.perf_counter()
    await Rooms(pool).change(ROOM, {"phase": "open"}, actor="bench")
    await until(lambda: _drawn(pool, entries), f"{entries:,} places are drawn")
    waited = time.perf_counter() - started
    row = await pool.fetchrow(bench_sql("draw_proof.sql"), ROOM)
    assert row is not None
    return [
        Fact(f"a draw of {entries:,} entries, from their close to the order", row["seconds"], "s", OPENS_SECONDS_MAX),
        Fact("the same, from an operator's hand to the order in Postgres", waited, "s", 2.0),
        Fact(f"a place among {entries:,}", _place_microseconds(entries), "µs", PLACE_MICROSECONDS_MAX),
    ]


def _place_microseconds(entries: int) -> float:
    """How long one place takes, over many entries."""
    key = draw_key(secrets.token_bytes(32), ROOM, 1, entries)
    tried = [1 + secrets.randbelow(entries) for _ in range(PLACES_TRIED)]
    started = time.perf_counter()
    for entry in tried:
        drawn_place(key, entries, entry)
    return (time.perf_counter() - started) / PLACES_TRIED * 1e6


async def _chunked(pool: Pool, chunks: int) -> bool:
    row = await pool.fetchrow(bench_sql("draw_proof.sql"), ROOM)
    return row is not None and row["chunks"] >= chunks


async def _drawn(pool: Pool, entries: int) -> bool:
    row = await pool.fetchrow(bench_sql("draw_proof.sql"), ROOM)
    return row is not None and row["entries"] == entries


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for `condition`. Raises LoadError, naming `what`, when it does not come."""
    for _ in range(TRIES_MAX):
        if await condition():
            return
        await asyncio.sleep(TRY_SECONDS)
    raise LoadError(f"not seen in time: {what}")
