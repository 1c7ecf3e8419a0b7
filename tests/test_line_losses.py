"""What the line survives: a flushed, killed and rewound Redis, a dead leader, a Postgres that is away (I8)."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
import redis.asyncio as redis

from admission.line import keys
from admission.redis_bond import RedisBond
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, back, line_world, places, soon, until
from tests.servers import ControlledServer


@pytest.mark.parametrize("moment", ["prequeue", "open"])
async def test_a_flushed_redis_loses_no_place_and_issues_no_number_twice(
    settings: Settings, pool: Pool, moment: str
) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(opens_at=soon(600) if moment == "prequeue" else None, rate_per_minute=1)
        kind = "entry" if moment == "prequeue" else "number"
        before = [await world.join() for _ in range(30)]
        await world.shows("issued", 30)
        await until_known(pool, 30)
        if moment == "open":
            await until_placed(world, before[-1])
        known = await places(world, before)
        await memory.flushall()
        newcomer = await back(world)
        assert newcomer.joined[kind] not in {buyer.joined[kind] for buyer in before}
        assert await places(world, before) == known
        await world.shows("issued", 31)  # what was passed over counts in nobody's way
        if moment == "open":
            assert (await world.place(newcomer))["place"] == 31


async def test_a_rewound_redis_issues_no_number_twice(
    settings: Settings, pool: Pool, valkey_server: ControlledServer, tmp_path: Path
) -> None:
    settings = settings.model_copy(update={"redis_url": valkey_server.url})
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=1)
        early = [await world.join() for _ in range(5)]
        async with redis.Redis.from_url(valkey_server.url) as memory:
            await memory.waitaof(1, 0, 5000)
            folder = Path(str((await memory.config_get("dir"))["dir"]))
        copy = tmp_path / "older"
        subprocess.run(["cp", "-a", folder, copy], check=True)
        lost = [await world.join() for _ in range(5)]
        await until_placed(world, lost[-1])
        known = await places(world, early)
        await valkey_server.kill()
        answer = await world.http.get(f"/rooms/{world.room}/place", headers={"Fairgate-Ticket": lost[0].ticket})
        assert answer.status_code == 200
        assert answer.json()["place"] is not None
        shutil.rmtree(folder)
        subprocess.run(["cp", "-a", copy, folder], check=True)
        await valkey_server.start()
        newcomer = await back(world)
        numbers = [buyer.joined["number"] for buyer in (*early, *lost, newcomer)]
        assert len(set(numbers)) == len(numbers)
        assert await places(world, early) == known
        assert all(after <= number for after, number in zip(await ints(world, lost), range(6, 11), strict=True))


async def test_while_redis_is_away_the_gate_goes_on_and_places_are_safe(
    settings: Settings, pool: Pool, valkey_server: ControlledServer
) -> None:
    settings = settings.model_copy(update={"redis_url": valkey_server.url})
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        inside = await world.join()
        token = await world.admitted(inside)
        await world.put(rate_per_minute=1, paused=True)
        await world.shows("phase", "paused")
        waiting = await world.join()
        place = (await world.place(waiting))["place"]
        await valkey_server.kill()
        gate = await world.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": token})
        assert gate.status_code == 204
        mine = await world.place(waiting)
        assert (mine["place"], mine["line"]) == (place, "away")
        refused = await world.http.post("/rooms/onsale/tickets", json={"client_id": "A" * 43})
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert "retry-after" in refused.headers
        assert (await world.claim(waiting)).status_code == 503
        page = await world.http.get("/rooms/onsale", headers={"Accept": "text/html", "Fairgate-Ticket": waiting.ticket})
        assert page.status_code == 200
        assert "Your place is safe" in page.text
        await valkey_server.start()
        await world.put(rate_per_minute=60_000)
        await world.admitted(waiting)


async def test_a_new_redis_keeps_the_active_cap(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, active_max=2)
        inside = [await world.join() for _ in range(2)]
        passes = [await world.admitted(buyer) for buyer in inside]

        async def kept() -> bool:
            return bool(await pool.fetchval("SELECT count(*) FROM line.claims") == 2)

        await until(kept, "the claims are in Postgres")
        await memory.flushall()
        newcomer = await back(world)
        assert (await world.claim(newcomer)).status_code == 202
        assert (await world.claim(inside[0])).json()["pass"] == passes[0]
        await world.http.delete("/rooms/onsale/passes", headers={"Fairgate-Pass": passes[0]})
        await world.admitted(newcomer)


async def test_thousands_of_claims_come_back_whole(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, active_max=2_501)
        await pool.execute(
            "INSERT INTO line.claims (room, epoch, ticket_id, turn, place, jti, issued_at, expires_at)"
            " SELECT 'onsale', 1, 'ticket-' || n, 1, 0, 'jti-' || n, 1, 4102444800 FROM generate_series(1, 2500) AS n"
        )
        await memory.flushall()
        first, second = await back(world), await world.join()
        await world.admitted(first)
        await world.shows("active", 2_501)
        assert (await world.claim(second)).status_code == 202


async def test_a_leader_that_slept_through_a_restore_brings_nothing_into_the_next(settings: Settings) -> None:
    bond = RedisBond(settings.redis_url)
    await bond.renew()
    identity = bond.identity_of("onsale")
    of_restore = keys("onsale", 1, "line", "calls", "doubtful", "slots", "claims", "forget", "claimed")
    of_refill = keys("onsale", 1, "line", "slots", "claims", "forget", "claimed")
    claim = ("ticket", "1", "1", "4102444800", "active")
    for generation in ("4", "5"):
        assert await bond.run("restore", identity, of_restore, (generation, "1", "0 0")) == ["restoring"]
    assert await bond.run("refill", identity, of_refill, ("4", "1", *claim)) == ["term"]
    assert await bond.run("restore", identity, of_restore, ("4", "1", "0 0")) == ["term"]
    assert await bond.run("refill", identity, of_refill, ("5", "1")) == ["refilled"]
    assert await bond.run("refill", identity, of_refill, ("5", "1", *claim)) == ["term"]
    async with redis.Redis.from_url(settings.redis_url) as memory:
        assert await memory.keys("*slots*") == []
        assert await memory.hget("{onsale}:line", "generation") == b"5"
    await bond.close()


async def test_another_worker_leads_when_the_leader_goes(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as second:
        async with line_world(settings, pool) as first:
            await first.put(rate_per_minute=60_000)
            await first.admitted(await first.join())
        await second.admitted(await second.join())


async def test_a_leader_whose_term_has_passed_changes_nothing(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000)
        await memory.hset("{onsale}:line", "term", "1000000")
        stood = await memory.hget("{onsale}:line", "since_ms")
        await asyncio.gather(*(world.join() for _ in range(3)))
        assert await memory.hget("{onsale}:line", "since_ms") == stood


async def test_issuing_goes_on_across_a_limit(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=1)
        await memory.hset("{onsale}:line", "numbers", "990")  # the first limit is 1,000
        buyers = await asyncio.gather(*(world.join() for _ in range(40)))
        numbers = [msgspec.convert(buyer.joined["number"], int) for buyer in buyers]
        assert sorted(numbers) == list(range(991, 1_031))
        assert await pool.fetchval("SELECT number_limit FROM line.progress") >= 1_030


async def until_known(pool: Pool, issued: int) -> None:
    """Wait until Postgres knows how many were issued."""

    async def known() -> bool:
        row = await pool.fetchrow("SELECT entries_known, numbers_known FROM line.progress")
        return row is not None and issued in (row["entries_known"], row["numbers_known"])

    await until(known, "Postgres knows")


async def until_placed(world: LineWorld, buyer: Buyer) -> None:
    """Wait until the draw is known to the gateway."""

    async def placed() -> bool:
        return (await world.place(buyer))["place"] is not None

    await until(placed, "the place is known")


async def ints(world: LineWorld, buyers: list[Buyer]) -> list[int]:
    """Everybody's place, all of them known."""
    return [msgspec.convert(place, int) for place in await places(world, buyers)]
