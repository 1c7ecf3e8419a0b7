"""Turns, rate, cap and leaving: nobody before their turn, never more than configured, with any number of workers (I7)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import redis.asyncio as redis

from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, line_world, until


@contextlib.asynccontextmanager
async def two_workers(settings: Settings, pool: Pool) -> AsyncIterator[tuple[LineWorld, LineWorld]]:
    """Two gateways on the same stores."""
    async with line_world(settings, pool) as first, line_world(settings, pool) as second:
        yield first, second


async def insist(workers: tuple[LineWorld, LineWorld], buyers: list[Buyer]) -> int:
    """All buyers claim again and again, at both workers at once, until each was let in or (on a busy machine) too late.

    Answers how many were let in.
    """
    admitted: set[str] = set()

    async def claim(buyer: Buyer) -> None:
        async def let_in() -> bool:
            answers = await asyncio.gather(*(worker.claim(buyer) for worker in workers))
            assert all(answer.status_code in (200, 201, 202, 410, 503) for answer in answers)
            if any(answer.status_code in (200, 201) for answer in answers):
                admitted.add(buyer.ticket_id)
            return any(answer.status_code in (200, 201, 410) for answer in answers)

        await until(let_in, "the buyer is let in")

    await asyncio.gather(*(claim(buyer) for buyer in buyers))
    return len(admitted)


async def admissions(pool: Pool, expected: int) -> list[tuple[int, int]]:
    """(issued_at, expires_at) of everybody admitted, once Postgres has all of them."""

    async def all_kept() -> bool:
        return bool(await pool.fetchval("SELECT count(*) FROM line.claims") == expected)

    await until(all_kept, "claims reach Postgres")
    return [tuple(row) for row in await pool.fetch("SELECT issued_at, expires_at FROM line.claims ORDER BY issued_at")]


async def test_admissions_never_pass_the_rate_in_any_window(settings: Settings, pool: Pool) -> None:
    async with two_workers(settings, pool) as workers:
        await workers[0].put(rate_per_minute=1_200)
        buyers = await asyncio.gather(*(workers[0].join() for _ in range(45)))
        admitted = await insist(workers, list(buyers))
        assert admitted > 0
        seconds = [issued for issued, _ in await admissions(pool, admitted)]
        for start in range(seconds[0], seconds[-1] + 1):
            for end in range(start + 1, seconds[-1] + 2):
                within = sum(start <= second < end for second in seconds)
                assert within <= 20 * (end - start) + 20


async def test_the_active_cap_is_exact(settings: Settings, pool: Pool) -> None:
    async with two_workers(settings, pool) as workers:
        await workers[0].put(rate_per_minute=60_000, active_max=7, pass_seconds=5, turn_seconds=60)
        buyers = await asyncio.gather(*(workers[0].join() for _ in range(20)))
        await insist(workers, list(buyers))
        kept = await admissions(pool, 20)
        for second in range(kept[0][0], kept[-1][1]):
            assert sum(issued <= second < expires for issued, expires in kept) <= 7


async def test_a_cap_that_shrinks_under_called_buyers_holds_and_keeps_their_turns(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, active_max=2)
        first, second = await world.join(), await world.join()
        await world.admitted(first)
        await until_state(world, second, "called")
        await world.put(rate_per_minute=60_000, active_max=1)

        async def narrowed() -> bool:
            return await memory.hget("{onsale}:line", "active_max") == b"1"

        await until(narrowed, "the new cap is in force")
        answer = await world.claim(second)
        assert (answer.status_code, answer.json()["reason"]) == (202, "full")
        assert (await world.place(second))["state"] == "called"
        await world.http.delete("/rooms/onsale/passes", headers=first.headers)
        await world.admitted(second)


async def test_nobody_is_admitted_before_being_called(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=1)
        first, second = await world.join(), await world.join()
        await world.admitted(first)
        answer = await world.claim(second)
        assert answer.status_code == 202
        assert answer.json()["code"] == "not-called"
        assert int(answer.headers["retry-after"]) >= 1

        async def next_in_line() -> bool:
            place = await world.place(second)
            assert (place["state"], place["place"]) == ("waiting", 2)
            return place["ahead"] == 0

        await until(next_in_line, "nobody is ahead")


async def test_a_missed_turn_is_gone_and_the_next_is_called(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, active_max=1, turn_seconds=60, grace_seconds=0)
        first, second = await world.join(), await world.join()
        await until_state(world, first, "called")
        assert (await world.place(second))["state"] == "waiting"

        async def missed() -> bool:
            await memory.hincrby("{onsale}:line", "clock_ms", 61_000)  # a minute of the room's turn clock
            return (await world.place(first))["state"] == "missed"

        await until(missed, "the turn is over")
        answer = await world.claim(first)
        assert answer.status_code == 410
        assert answer.json()["code"] == "turn-missed"
        await world.admitted(second)


async def test_a_paused_room_keeps_places_and_turns(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000, active_max=1)
        called, waiting = await world.join(), await world.join()
        await until_state(world, called, "called")
        await world.put(rate_per_minute=60_000, active_max=1, paused=True)
        await world.shows("phase", "paused")

        async def paused() -> bool:
            calling = (await world.status())["calling"]
            return isinstance(calling, dict) and calling["state"] == "paused"

        await until(paused, "the line itself is paused, too")
        assert (await world.claim(called)).status_code == 202
        assert (await world.place(waiting))["wait_seconds"] is None
        await world.put(rate_per_minute=60_000, active_max=1)
        await world.admitted(called)


async def test_leaving_frees_the_slot_at_once_and_ends_the_pass(settings: Settings, pool: Pool) -> None:
    async with two_workers(settings, pool) as (world, other):
        await world.put(rate_per_minute=60_000, active_max=1)
        first, second = await world.join(), await world.join()
        token = await world.admitted(first)
        gate = {"Fairgate-Pass": token}

        async def opens() -> bool:
            return (await other.http.get("/gate/onsale?dialect=nginx", headers=gate)).status_code == 204

        await until(opens, "the other worker knows the key")
        left = await world.http.delete("/rooms/onsale/passes", headers=gate)
        assert left.status_code == 204
        assert (await world.http.get("/gate/onsale?dialect=nginx", headers=gate)).status_code == 401

        async def shut() -> bool:
            return not await opens()

        await until(shut, "every verifier hears of it")
        await world.admitted(second)
        assert (await world.claim(first)).status_code == 410
        assert (await world.place(first))["state"] == "ended"
        again = await world.http.delete("/rooms/onsale/passes", headers=first.headers)
        assert again.status_code == 204


async def test_a_rate_changed_live_reaches_the_line(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=1)
        await world.admitted(await world.join())
        buyer = await world.join()
        assert (await world.claim(buyer)).status_code == 202
        await world.put(rate_per_minute=60_000)
        await world.admitted(buyer)


@pytest.mark.parametrize("method", ["draw", "fifo"])
async def test_places_are_in_order_of_arrival_once_open(settings: Settings, pool: Pool, method: str) -> None:
    async with line_world(settings, pool) as world:
        await world.put(method=method, rate_per_minute=1)
        buyers = [await world.join() for _ in range(3)]

        async def placed() -> bool:
            return [(await world.place(buyer))["place"] for buyer in buyers] == [1, 2, 3]

        await until(placed, "the places are known")


async def until_state(world: LineWorld, buyer: Buyer, state: str) -> None:
    """Wait until the buyer's place is in that state."""

    async def is_so() -> bool:
        return (await world.place(buyer))["state"] == state

    await until(is_so, f"the buyer is {state}")
