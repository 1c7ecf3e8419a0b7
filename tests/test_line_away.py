"""What a room lets happen while Redis or Postgres is away: nobody, everybody, or as many as the last rate (away_policy)."""

import time

import pytest
import redis.asyncio as redis

from admission.away import Bucket
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, back, line_world, until
from tests.servers import ControlledServer
from tests.switches import database_switch, to_database, valkey_switch
from tests.valkey_servers import tcp_valkey


async def let_in(worlds: list[LineWorld], buyers: list[Buyer], enough: int) -> dict[str, str]:
    """Claim for everybody, at the gateways in turn, until `enough` have a pass: the passes by ticket id."""
    passes: dict[str, str] = {}

    async def enough_have() -> bool:
        for at, buyer in enumerate(buyers):
            answer = await worlds[at % len(worlds)].claim(buyer)
            assert answer.status_code in (200, 201, 202, 503), answer.text
            if answer.status_code < 202:
                assert passes.setdefault(buyer.ticket_id, answer.json()["pass"]) == answer.json()["pass"]
        return len(passes) >= enough

    await until(enough_have, f"{enough} are let in")
    return passes


async def test_closed_lets_nobody_in_while_redis_is_away(
    settings: Settings, pool: Pool, valkey_server: ControlledServer
) -> None:
    settings = settings.model_copy(update={"redis_url": valkey_server.url})
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000, away_policy="closed")
        waiting = await world.join()
        await world.shows("called", 1)
        await valkey_server.kill()
        await world.shows("line", "away")
        began = time.monotonic()

        async def long_enough() -> bool:
            assert (await world.claim(waiting)).status_code == 503
            return time.monotonic() - began > 4

        await until(long_enough, "the absence lasts")
        assert await pool.fetchval("SELECT count(*) FROM line.claims") == 0


async def test_open_lets_everybody_in_with_one_pass_each_and_the_cap_counts_them_afterwards(
    settings: Settings, pool: Pool, valkey_server: ControlledServer
) -> None:
    settings = settings.model_copy(update={"redis_url": valkey_server.url})
    async with line_world(settings, pool) as first, line_world(settings, pool) as second:
        await first.put(rate_per_minute=1, active_max=3, away_policy="open")
        waiting = [await first.join() for _ in range(6)]
        await second.shows("issued", 6)
        await valkey_server.kill()
        passes = await let_in([first, second], waiting, 6)
        for buyer in waiting:
            for world in (first, second):
                assert (await world.claim(buyer)).json()["pass"] == passes[buyer.ticket_id]
        assert (await first.place(waiting[5]))["state"] in ("called", "admitted")
        await first.shows("admitted_away", 6)
        await valkey_server.start()
        await first.put(rate_per_minute=60_000, active_max=7, away_policy="closed")
        await first.shows("active", 6)
        await first.admitted(await first.join())
        assert (await first.claim(await first.join())).status_code == 202
        assert (await second.claim(waiting[0])).json()["pass"] == passes[waiting[0].ticket_id]


async def test_last_rate_lets_two_gateways_admit_no_more_than_the_rate_together(
    settings: Settings, pool: Pool, valkey_server: ControlledServer
) -> None:
    settings = settings.model_copy(update={"redis_url": valkey_server.url})
    async with line_world(settings, pool) as first, line_world(settings, pool) as second:
        await first.put(rate_per_minute=120, active_max=1, away_policy="last-rate", turn_seconds=600)
        waiting = [await first.join() for _ in range(40)]
        await second.shows("issued", 40)
        await until_shared(pool, [60, 60])
        await first.admitted(waiting[0])  # the cap is reached: only the last rate lets anybody in
        await valkey_server.kill()
        began = time.monotonic()
        passes = await let_in([first, second], waiting[1:], 10)
        elapsed = time.monotonic() - began
        assert len(passes) <= 120 * (elapsed + 3) / 60 + 2  # the last segment, a token for each gateway
        in_order = [buyer.ticket_id in passes for buyer in waiting[1:]]
        assert not any(in_order[round(120 * (elapsed + 4) / 60) + 2 :]), (
            "nobody is let in long before the line is there"
        )
        assert await pool.fetchval("SELECT count(*) FROM line.claims WHERE away") == len(passes)
        await valkey_server.start()
        await first.shows("line", "reachable")

        async def all_entered() -> bool:
            return (await first.status())["active"] == len(passes) + 1

        await until(all_entered, "everybody let in meanwhile counts")
        for buyer in waiting[1:]:
            if buyer.ticket_id in passes:
                assert (await second.claim(buyer)).json()["pass"] == passes[buyer.ticket_id]


async def test_shares_never_exceed_the_rate_and_follow_the_workers(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as first:
        await first.put(rate_per_minute=120, away_policy="last-rate")
        await until_shared(pool, [120])
        async with line_world(settings, pool):
            await until_shared(pool, [60, 60])
        await until_shared(pool, [120])
    assert await pool.fetchval("SELECT count(*) FROM line.shares") == 0


async def test_what_a_worker_without_redis_lets_in_counts_at_the_others_at_once(settings: Settings, pool: Pool) -> None:
    async with tcp_valkey() as server, valkey_switch(server.url) as switch:
        well, cut_off = (settings.model_copy(update={"redis_url": url}) for url in (server.url, switch.url))
        async with line_world(well, pool) as first, line_world(cut_off, pool) as second:
            await first.put(rate_per_minute=60_000, active_max=2, away_policy="open")
            waiting = [await first.join() for _ in range(3)]
            await second.shows("issued", 3)
            switch.turn(None)
            passes = await let_in([second], waiting[:2], 2)
            await first.shows("active", 2)
            assert (await first.claim(waiting[2])).status_code == 202
            assert (await first.claim(waiting[0])).json()["pass"] == passes[waiting[0].ticket_id]


async def test_who_is_let_in_while_both_stores_are_away_counts_when_they_are_back(
    settings: Settings, pool: Pool, valkey_server: ControlledServer
) -> None:
    url = settings.database_url
    async with database_switch(url) as switch:
        settings = settings.model_copy(update={"redis_url": valkey_server.url, "database_url": switch.url})
        async with line_world(settings, pool) as world:
            await world.put(rate_per_minute=1, away_policy="open")
            waiting = [await world.join() for _ in range(4)]
            await world.shows("issued", 4)
            switch.turn(None)
            await valkey_server.kill()
            passes = await let_in([world], waiting, 4)
            await valkey_server.start()
            switch.turn(to_database(url))
            await world.shows("active", 4)
            assert await pool.fetchval("SELECT count(*) FROM line.claims WHERE away") == 4
            assert (await world.claim(waiting[0])).json()["pass"] == passes[waiting[0].ticket_id]


async def test_while_postgres_is_away_joins_claims_and_looks_go_on_and_nothing_is_lost(
    settings: Settings, pool: Pool
) -> None:
    url = settings.database_url
    async with database_switch(url) as switch, redis.Redis.from_url(settings.redis_url) as memory:
        async with line_world(settings.model_copy(update={"database_url": switch.url}), pool) as world:
            await world.put(rate_per_minute=60_000, active_max=4)
            called = [await world.join() for _ in range(3)]
            await world.shows("called", 3)
            switch.turn(None)
            passes = [await world.admitted(buyer) for buyer in called]
            late = await world.join()
            assert (await world.place(late))["place"] == 4
            await memory.hset("{onsale}:line", mapping={"numbers": "1000000", "number_limit": "4"})
            refused = await world.http.post("/rooms/onsale/tickets", json={"client_id": "A" * 43})
            assert (refused.status_code, refused.json()["code"]) == (503, "busy")
            await memory.hset("{onsale}:line", "numbers", "4")
            await memory.flushall()  # and now Redis forgets whom it let in
            switch.turn(to_database(url))
            await world.shows("active", 3)
            for buyer, token in zip(called, passes, strict=True):
                assert await world.admitted(buyer) == token  # a worker may hear of the new generation a moment later
            await world.admitted(late)
            newcomer = await world.join()
            assert (await world.claim(newcomer)).status_code == 202


async def test_a_pass_is_in_postgres_before_it_is_handed_out_so_a_flushed_redis_keeps_the_cap(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, active_max=5, turn_seconds=5, pass_seconds=600)
        early = [await world.join() for _ in range(2)]
        for buyer in early:
            await world.admitted(buyer)
        await memory.flushall()
        assert await pool.fetchval("SELECT count(*) FROM line.claims") == 2
        later = [await back(world), *[await world.join() for _ in range(7)]]
        await until_over(pool, 2)  # from here on nothing but their claims says that they are inside
        passes = await let_in([world], later, 3)
        await memory.flushall()
        later.append(await back(world))
        assert await let_in([world], later, 3) == passes
        assert [(await world.claim(buyer)).status_code for buyer in later].count(200) == 3


def test_a_bucket_lets_in_no_more_than_its_share() -> None:
    bucket = Bucket(0.0, 100.0)
    assert bucket.take(60, 100.0) == pytest.approx(1.0)
    taken = sum(bucket.take(60, 100 + step / 100) == 0 for step in range(6_000))
    assert 58 <= taken <= 60
    assert bucket.take(60, 1_000.0) == 0
    assert bucket.take(60, 1_000.0) > 0


async def until_shared(pool: Pool, shares: list[int]) -> None:
    """Wait until the workers hold just these shares."""

    async def shared() -> bool:
        rows = await pool.fetch("SELECT rate_per_minute FROM line.shares ORDER BY worker")
        assert sum(row["rate_per_minute"] for row in rows) <= sum(shares) + 1e-6 or len(rows) != len(shares)
        return [round(row["rate_per_minute"]) for row in rows] == shares

    await until(shared, f"the shares are {shares}")


async def until_over(pool: Pool, called: int) -> None:
    """Wait until the turns of all places up to `called` are over."""

    async def over() -> bool:
        return bool(await pool.fetchval("SELECT over FROM line.progress") >= called)

    await until(over, "the turns are over")
