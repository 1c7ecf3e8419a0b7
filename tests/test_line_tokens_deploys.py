"""A deploy loses nobody: one gateway stops gracefully and another takes over while buyers join, ask and claim."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from secrets import token_urlsafe

import httpx
import pytest

from chassis.database import Pool
from chassis.settings import Settings
from tests.gateways import Gateway, gateway_process
from tests.line_world import Buyer, LineWorld, client_id_of, until

CLIENTS = 6
PASSES_WANTED = 10


class Road:
    """What a buyer's client does when its connection breaks: it asks again, of whichever gateway answers."""

    def __init__(self, worlds: list[LineWorld]) -> None:
        self.worlds = worlds

    async def __call__(self, ask: Callable[[LineWorld], Awaitable[httpx.Response]]) -> httpx.Response:
        answers: list[httpx.Response] = []

        async def answered() -> bool:
            for world in self.worlds:
                with contextlib.suppress(httpx.TransportError):
                    answer = await ask(world)
                    if answer.status_code != 503:
                        answers.append(answer)
                        return True
            return False

        await until(answered, "some gateway answers")
        return answers[0]


@contextlib.asynccontextmanager
async def world_at(gateway: Gateway, pool: Pool) -> AsyncIterator[LineWorld]:
    world = LineWorld(gateway.url, pool, "onsale")
    async with world.http:
        yield world


@pytest.mark.timeout(180)
async def test_everybody_keeps_place_and_pass_while_one_gateway_hands_over_to_the_next(
    settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        old = await stack.enter_async_context(gateway_process(settings, tmp_path / "old.log"))
        before = await stack.enter_async_context(world_at(old, pool))
        await before.put(rate_per_minute=600)
        buyers = [await before.join() for _ in range(5)]
        passes = {buyer.ticket_id: await before.admitted(buyer) for buyer in buyers}
        new = await stack.enter_async_context(gateway_process(settings, tmp_path / "new.log"))
        after = await stack.enter_async_context(world_at(new, pool))
        road, stopped, seen = Road([before, after]), asyncio.Event(), []

        async def client() -> None:
            """One buyer after the other joins and is let in, until the old gateway is gone and a few more came in."""
            while not (stopped.is_set() and len(passes) >= len(buyers) + PASSES_WANTED):
                buyer = await _join(road)
                seen.append(buyer)
                passes[buyer.ticket_id] = await _claim(road, buyer)

        async def hand_over() -> None:
            async def at_work() -> bool:
                return len(seen) > CLIENTS

            await until(at_work, "clients are at work")
            assert await old.stop() in (0, -signal.SIGTERM)
            stopped.set()

        await asyncio.gather(hand_over(), *(client() for _ in range(CLIENTS)))
        for buyer in (*buyers, *seen):
            place = await after.place(buyer)
            assert place["place"] == buyer.joined["number"]
            assert place["state"] in ("waiting", "called", "admitted")
            again = await after.http.post("/rooms/onsale/tickets", json={"client_id": buyer.client_id})
            assert (again.status_code, again.json()["number"]) == (200, buyer.joined["number"])
        for token in passes.values():
            gate = await after.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": token})
            assert gate.status_code == 204


async def _join(road: Road) -> Buyer:
    secret = token_urlsafe(32)
    body = {"client_id": client_id_of(secret)}
    answer = await road(lambda world: world.http.post("/rooms/onsale/tickets", json=body))
    assert answer.status_code in (200, 201), answer.text
    joined = answer.json()
    return Buyer(secret, body["client_id"], joined["ticket"], joined["ticket_id"], joined)


async def _claim(road: Road, buyer: Buyer) -> str:
    """Look and claim until the room lets the buyer in: the pass."""
    found: list[str] = []

    async def let_in() -> bool:
        headers = {"Fairgate-Ticket": buyer.ticket}
        place = await road(lambda world: world.http.get("/rooms/onsale/place", headers=headers))
        assert place.status_code == 200, place.text
        claimed = await road(lambda world: world.claim(buyer))
        assert claimed.status_code in (200, 201, 202), claimed.text
        if claimed.status_code != 202:
            found.append(claimed.json()["pass"])
        return bool(found)

    await until(let_in, "the buyer is let in")
    return found[0]
