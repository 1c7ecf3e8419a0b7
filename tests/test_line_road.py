"""The road of a buyer through the line, over HTTP on real servers."""

import asyncio

from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import line_world, soon


async def test_joining_twice_gives_one_place(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(600))
        buyer = await world.join()
        again = await world.http.post("/rooms/onsale/tickets", json={"client_id": buyer.client_id})
        assert again.status_code == 200
        assert again.json()["entry"] == buyer.joined["entry"]
        assert again.json()["ticket_id"] == buyer.ticket_id
        await world.shows("issued", 1)


async def test_everyone_before_opening_is_drawn_and_newcomers_line_up_behind(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(3), rate_per_minute=60_000)
        early = await asyncio.gather(*(world.join() for _ in range(20)))
        assert all("entry" in buyer.joined for buyer in early)
        assert (await world.place(early[0]))["state"] == "entered"
        assert (await world.claim(early[0])).status_code == 202
        passes = [await world.admitted(buyer) for buyer in early]
        assert len(set(passes)) == 20
        late = await world.join()
        assert late.joined["number"] == 1
        places = [(await world.place(buyer))["place"] for buyer in early]
        assert sorted(places, key=str) == sorted(range(1, 21), key=str)
        assert (await world.place(late))["place"] == 21
        await world.shows("issued", 21)
        await world.shows("phase", "open")


async def test_a_claim_repeated_is_the_same_pass(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        granted = await world.admitted(buyer)
        again = await world.claim(buyer)
        assert again.status_code == 200
        assert again.json()["pass"] == granted
        place = await world.place(buyer)
        assert place["state"] == "admitted"
