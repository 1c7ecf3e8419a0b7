"""Claims: one ticket is one pass and one slot, whatever is repeated, lost or asked at once."""

import asyncio
import contextlib
import secrets

import pytest
import redis.asyncio as redis

from chassis.database import Pool
from chassis.settings import Settings
from tests.fault_proxy import ValkeyFaultProxy
from tests.line_world import client_id_of, line_world, until
from tests.test_line_turns import until_state

WORKERS = 8


async def test_one_ticket_claimed_at_eight_workers_at_once_is_one_slot_and_one_pass(
    settings: Settings, pool: Pool
) -> None:
    settings = settings.model_copy(update={"database_connections": 4})
    async with contextlib.AsyncExitStack() as stack, redis.Redis.from_url(settings.redis_url) as memory:
        worlds = [await stack.enter_async_context(line_world(settings, pool)) for _ in range(WORKERS)]
        await worlds[0].put(rate_per_minute=60_000)
        buyer = await worlds[0].join()
        await until_state(worlds[0], buyer, "called")

        async def all_ready() -> bool:
            return all([(await world.place(buyer))["state"] == "called" for world in worlds])

        await until(all_ready, "every worker has called the buyer")
        answers = await asyncio.gather(*(world.claim(buyer) for world in worlds for _ in range(4)))
        assert sorted(answer.status_code for answer in answers) == [200] * (4 * WORKERS - 1) + [201]
        assert len({answer.json()["pass"] for answer in answers}) == 1
        assert await memory.zcard("{onsale}:slots") == 1
        assert await memory.hget("{onsale}:line", "admitted") == b"1"


async def test_a_claim_whose_answer_is_lost_gives_the_same_pass_when_it_is_repeated(
    settings: Settings, pool: Pool
) -> None:
    async with ValkeyFaultProxy(settings.redis_url) as proxy, redis.Redis.from_url(settings.redis_url) as memory:
        async with line_world(settings.model_copy(update={"redis_url": proxy.url}), pool) as world:
            await world.put(rate_per_minute=60_000, active_max=1)
            buyer = await world.join()
            await until_state(world, buyer, "called")
            proxy.about = buyer.ticket_id.encode()
            proxy.lose_answers(2)  # the worker itself asks once more
            lost = await world.claim(buyer)
            assert (lost.status_code, lost.json()["code"]) == (503, "busy")
            assert "retry-after" in lost.headers
            first = await world.admitted(buyer)
            assert (await world.claim(buyer)).json()["pass"] == first
            assert await memory.zcard("{onsale}:slots") == 1
            assert await memory.hget("{onsale}:line", "admitted") == b"1"


async def test_an_error_at_the_shop_costs_no_place(settings: Settings, pool: Pool) -> None:
    """C-46: whoever was let in and met an error there comes back and is let in, without a new place in line."""
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        token = await world.admitted(buyer)
        again = await world.claim(buyer)
        assert (again.status_code, again.json()["pass"]) == (200, token)
        rejoined = await world.http.post(
            "/rooms/onsale/tickets", json={"client_id": buyer.client_id}, headers={"Fairgate-Ticket": buyer.ticket}
        )
        assert (rejoined.status_code, rejoined.json()["number"]) == (200, buyer.joined["number"])


async def test_a_worker_that_has_admitted_many_admits_no_more_than_a_fresh_one(settings: Settings, pool: Pool) -> None:
    """C-56: what was admitted before never adds to what may be admitted now."""
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, active_max=2)
        for cycle in range(1, 6):
            buyers = [await world.join() for _ in range(2)]
            passes = [await world.admitted(buyer) for buyer in buyers]
            late = await world.join()
            await until_state(world, late, "waiting")
            assert (await world.claim(late)).status_code == 202
            assert await memory.zcard("{onsale}:slots") == 2
            assert int(await memory.hget("{onsale}:line", "admitted") or 0) == 3 * cycle - 1
            for token in passes:
                await world.http.delete("/rooms/onsale/passes", headers={"Fairgate-Pass": token})
            last = await world.admitted(late)
            await world.http.delete("/rooms/onsale/passes", headers={"Fairgate-Pass": last})


@pytest.mark.parametrize("phase", ["prequeue", "open"])
async def test_joins_that_come_at_once_are_one_place_for_each_client(
    settings: Settings, pool: Pool, phase: str
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=1, phase=phase)
        await world.shows("phase", phase)
        kind = "entry" if phase == "prequeue" else "number"
        clients = [client_id_of(secrets.token_urlsafe(32)) for _ in range(20)]

        async def join(client_id: str) -> tuple[str, int]:
            answer = await world.http.post("/rooms/onsale/tickets", json={"client_id": client_id})
            assert answer.status_code in (200, 201), answer.text
            return client_id, answer.json()[kind]

        joined = await asyncio.gather(*(join(client_id) for client_id in clients * 3))
        assert len(set(joined)) == 20
        assert sorted({index for _, index in joined}) == list(range(1, 21))
