"""What a waiter costs Redis: bounded while entries come, and less once they are kept in Postgres."""

import hashlib

import redis.asyncio as redis

from admission.line import ENTRANT_BYTES, keys
from admission.redis_bond import _script
from admission.tickets import client_digest, client_id_of
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import LineWorld, line_world, soon, until

WAITERS = 33_000  # just above a power of two, where a hash table has the most room to spare


async def test_a_waiter_costs_redis_at_most_150_bytes_before_opening_and_100_after(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(600))
        await pool.execute("UPDATE line.progress SET entry_limit = $1", WAITERS + 1_000)
        entrants, unsaved = keys("onsale", 1, "entrants", "unsaved_entries")
        async with redis.Redis.from_url(settings.redis_url) as client:
            await enter(client, world)
            each = (await client.memory_usage(entrants, samples=0) or 0) / WAITERS
            print(f"{each:.0f} bytes a waiter")
            assert each <= 100

            async def saved() -> bool:
                return await client.llen(unsaved) == 0

            await until(saved, "the entries are kept")
            assert await pool.fetchval("SELECT count(*) FROM line.entries") == WAITERS
            used = [await client.memory_usage(key, samples=0) or 0 async for key in client.scan_iter("{onsale}*")]
            assert sum(used) / WAITERS <= 150


async def enter(client: redis.Redis, world: LineWorld) -> None:
    """Many joins in few round trips, by the very script."""
    generation = await world.pool.fetchval("SELECT generation FROM line.progress")
    script, _ = _script("join")
    digest = await client.script_load(script)
    names = keys("onsale", 1, "line", "entrants", "unsaved_entries")
    for first in range(0, WAITERS, 300):
        joins: list[str | bytes] = []
        for number in range(first, first + 300):
            client_id = client_id_of(hashlib.sha256(str(number).encode()).hexdigest())
            joins += (client_digest(client_id)[:ENTRANT_BYTES], client_id)
        _, *rows = await client.evalsha(digest, 3, *names, generation, WAITERS + 1_000, 0, *joins)
        assert all(row[0] == b"joined" for row in rows)
