"""The leader on real servers: what it writes stands in Postgres first, and one that slept past its lease changes nothing."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio as redis

from admission.line import keys
from admission.redis_bond import RedisBond
from admission.stock_teller import Load, StockTeller
from chassis.database import Pool
from chassis.settings import Settings
from tests.gateways import Gateway, gateway_process
from tests.line_world import LineWorld, line_world, until


async def test_a_leader_that_slept_drops_no_claim_that_its_successor_has_not_saved(redis_url: str) -> None:
    bond = RedisBond(redis_url)
    await bond.renew()
    line, unsaved = keys("onsale", 1, "line", "unsaved")
    async with redis.Redis.from_url(redis_url, decode_responses=True) as memory:
        await memory.hset(line, mapping={"generation": "1", "term": "4"})
        await memory.rpush(unsaved, "old")

        async def drain(term: int, saved: int) -> list[str]:
            return await bond.run(
                "drain", bond.identity_of("onsale"), (line, unsaved), ("1", str(term), str(saved), "10")
            )

        assert await drain(4, 0) == ["unsaved", "old"]  # and falls asleep, having saved it
        assert await drain(5, 0) == ["unsaved", "old"]
        assert await drain(5, 1) == ["unsaved"]
        await memory.rpush(unsaved, "new")
        assert await drain(4, 1) == ["term"]
        assert await memory.lrange(unsaved, 0, -1) == ["new"]
    await bond.close()


async def test_the_segment_in_force_and_what_is_known_of_no_shows_stand_in_postgres(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(method="fifo", rate_per_minute=600)
        buyer = await world.join()
        await world.admitted(buyer)

        async def recorded() -> bool:
            row = await pool.fetchrow("SELECT * FROM line.progress")
            in_force = await memory.hmget("{onsale}:line", "valid_until_ms", "called_max")
            assert row is not None
            assert row["valid_until_ms"] >= int(in_force[0] or 0), "Postgres holds it before Redis acts"
            assert row["called"] >= int(in_force[1] or 0)
            return bool(row["call_rate"] > 0 and sum(json.loads(row["pacing"])["profile"]["shown"]) > 0)

        await until(recorded, "the segment and the profile are recorded")


async def test_the_line_stops_when_all_is_held_and_goes_on_when_units_come_back(settings: Settings, pool: Pool) -> None:
    bond = RedisBond(settings.redis_url)
    await bond.renew()
    teller = StockTeller(bond, "test")
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=60_000)
        assert (await world.status())["stock"] == "absent"

        async def told(free: int, held: int, state: str) -> None:
            async def says() -> bool:
                await teller.tell_stock("onsale", free, held, Load(0.0, None))
                calling = (await world.status())["calling"]
                assert isinstance(calling, dict)
                return bool(calling["state"] == state)

            await until(says, f"the line is {state}")

        await told(0, 1, "all-held")
        waiting = await world.join()
        assert (await world.claim(waiting)).status_code == 202
        await told(0, 0, "sold-out")
        assert (await world.status())["sold_out"] is True
        await told(1, 0, "running")
        await world.admitted(waiting)
        await told(1, 0, "taken")
    await bond.close()


async def test_one_worker_at_a_time_tells_the_rooms_and_it_knows_the_busiest(redis_url: str) -> None:
    bond = RedisBond(redis_url)
    first, second = StockTeller(bond, "first"), StockTeller(bond, "second")
    assert await first.tell_load(Load(0.9, 12.5)) == Load(0.9, 12.5)
    assert await second.tell_load(Load(0.1, None)) is None
    heard: list[Load] = []

    async def second_has_its_turn() -> bool:
        load = await second.tell_load(Load(0.1, None))
        heard.extend([load] if load is not None else [])
        return bool(heard)

    await until(second_has_its_turn, "the turn passes on")
    assert heard == [Load(0.9, 12.5)]
    await bond.close()


@pytest.mark.parametrize(("no_shows", "code"), [("0.3", 0), ("1.0", 1)])
async def test_simulate_line_fails_when_the_rate_is_not_met(no_shows: str, code: int) -> None:
    command = (sys.executable, "-m", "fairgate", "simulate", "line", "--minutes", "4", "--no-shows", no_shows, "--json")
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    document = json.loads(ran.stdout)
    assert len(document["admissions_per_minute"]) == 4
    assert document["kept"] is (code == 0)


@contextlib.asynccontextmanager
async def world_at(gateway: Gateway, pool: Pool) -> AsyncIterator[LineWorld]:
    """The room behind one of several gateways."""
    world = LineWorld(gateway.url, pool, "onsale")
    async with world.http:
        yield world


@pytest.mark.timeout(180)
async def test_another_gateway_leads_within_seconds_when_the_leader_is_stopped_and_the_old_one_changes_nothing(
    settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    async with gateway_process(settings, tmp_path / "first.log") as first, world_at(first, pool) as world:
        await world.put(method="fifo", rate_per_minute=600)
        await world.admitted(await world.join())
        async with gateway_process(settings, tmp_path / "second.log") as second, world_at(second, pool) as other:
            await other.shows("line", "reachable")
            term = await pool.fetchval("SELECT term FROM line.progress")
            first.process.send_signal(signal.SIGSTOP)
            try:
                stopped_at = time.monotonic()
                for _ in range(3):
                    await other.admitted(await other.join())
                print(f"let in again {time.monotonic() - stopped_at:.1f} s after the leader was stopped")
                led = await pool.fetchrow("SELECT term, called, numbers_known FROM line.progress")
                assert led is not None and led["term"] > term
            finally:
                first.process.send_signal(signal.SIGCONT)

            async def awake() -> bool:
                return (await world.status())["called"] == 4

            await until(awake, "the old leader is awake")
            await other.admitted(await other.join())
            after = await pool.fetchrow("SELECT term, called, numbers_known FROM line.progress")
            assert after is not None
            assert after["term"] == led["term"], "the old leader did not lead again"
            assert after["called"] == after["numbers_known"] == 5, "the line never ran ahead of the numbers issued"
