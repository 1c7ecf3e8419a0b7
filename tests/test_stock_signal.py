"""What the stock tells the line: free and held follow each reserve and release, and no buyer waits or fails for it."""

import asyncio
import contextlib

import redis.asyncio as redis

from chassis.database import Pool
from chassis.settings import Settings
from counters.app import create
from tests.line_world import LineWorld, line_world, until
from tests.servers import ControlledServer
from tests.stock_counter import open_counter
from tests.stock_world import World

WORKERS = 3
TURN_SECONDS_MIN = 0.9
WORDS = 6


async def told(world: LineWorld, free: int, held: int) -> None:
    """Wait until the room's public document says what is left."""

    async def says() -> bool:
        stock = (await world.status())["stock"]
        return isinstance(stock, dict) and (stock["free"], stock["held"]) == (free, held)

    await until(says, f"the line hears of {free} free and {held} held")


async def test_the_line_hears_what_is_left_after_each_reserve_release_and_sale(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, open_counter(settings, pool) as counter:
        await world.put(method="fifo", rate_per_minute=600)
        await counter.world.fungible("stalls", total=10, room="onsale")
        await counter.world.fungible("circle", total=5, room="onsale")
        await counter.world.fungible("elsewhere", total=99, room="presale")
        await counter.world.fungible("anywhere", total=99)
        await told(world, 15, 0)
        buyer = counter.buyer()
        hold = await counter.hold(buyer, {"sku": "stalls", "quantity": 3})
        await told(world, 12, 3)
        kept = await counter.hold(buyer, {"sku": "circle", "quantity": 5})
        await told(world, 7, 8)
        assert (await counter.on_hold(buyer, hold, "release")).status_code == 200
        await told(world, 10, 5)
        assert (await counter.on_hold(counter.shop, kept, "confirm")).status_code == 200
        await told(world, 10, 0)


async def test_what_is_left_for_a_room_counts_due_holds_as_free_and_nothing_that_is_not_on_sale(pool: Pool) -> None:
    world = World(pool)
    await world.fungible("stalls", total=10, room="onsale")
    await world.fungible("halted", total=50, room="presale")
    await world.fungible("anywhere", total=50)
    assert sorted(await world.stock.left_for_rooms()) == [("onsale", 10, 0), ("presale", 50, 0)]
    hold = await world.hold("stalls", 4, room="onsale")
    kept = await world.hold("stalls", 1, room="onsale")
    assert ("onsale", 5, 5) in await world.stock.left_for_rooms()
    await world.expire(hold)
    assert ("onsale", 9, 1) in await world.stock.left_for_rooms(), "a hold past its deadline can be reserved again"
    await world.confirm(kept)
    assert ("onsale", 9, 0) in await world.stock.left_for_rooms()
    await pool.execute("UPDATE stock.skus SET state = 'halted' WHERE name = 'halted'")
    assert await world.stock.left_for_rooms() == [("onsale", 9, 0)]
    await world.hold("stalls", 2, room="onsale")
    await pool.execute("UPDATE stock.skus SET state = 'ended' WHERE name = 'stalls'")
    assert await world.stock.left_for_rooms() == [("onsale", 0, 2)], "an ended sale gives nothing more"


async def test_of_several_workers_one_tells_the_rooms_each_second_and_all_say_how_busy_they_are(
    settings: Settings, pool: Pool
) -> None:
    await World(pool).fungible("stalls", total=10, room="onsale")
    async with contextlib.AsyncExitStack() as stack, redis.Redis.from_url(settings.redis_url) as memory:
        for _ in range(WORKERS):
            app = create(settings.model_copy(update={"database_connections": 4}))
            await stack.enter_async_context(app.router.lifespan_context(app))

        async def all_speak() -> bool:
            return bool(await memory.hlen("{stock}:load") == WORKERS)

        await until(all_speak, "every worker says how busy it is")
        told_ms: list[int] = []

        async def told_often() -> bool:
            at_ms = int(await memory.hget("{onsale}:stock", "at_ms") or 0)
            if at_ms and at_ms not in told_ms:
                told_ms.append(at_ms)
            return len(told_ms) == WORDS

        await until(told_often, f"the room is told {WORDS} times")
        seconds = (told_ms[-1] - told_ms[0]) / 1000
        # Between the first word and the last; the first may have been late by a moment.
        assert seconds / TURN_SECONDS_MIN + 1 >= WORDS - 1


async def test_the_stock_goes_on_without_redis_and_tells_the_line_again_when_it_is_back(
    settings: Settings, pool: Pool, valkey_server: ControlledServer
) -> None:
    settings = settings.model_copy(update={"redis_url": valkey_server.url})
    async with open_counter(settings, pool) as counter:
        await counter.world.fungible("stalls", total=10, room="onsale")
        buyer = counter.buyer()

        async def hears(held: int) -> bool:
            async with redis.Redis.from_url(valkey_server.url, decode_responses=True) as memory:
                return await memory.hmget("{onsale}:stock", "free", "held") == [str(10 - held), str(held)]

        await until(lambda: hears(0), "the line is told")
        await valkey_server.kill()
        holds = [await counter.hold(buyer, {"sku": "stalls", "quantity": 2}) for _ in range(3)]
        assert (await counter.on_hold(buyer, holds[0], "release")).status_code == 200
        assert (await counter.on_hold(counter.shop, holds[1], "confirm")).status_code == 200
        assert (await counter.api.get("/readyz")).status_code == 200
        await valkey_server.start()

        async def hears_again() -> bool:
            async with redis.Redis.from_url(valkey_server.url, decode_responses=True) as memory:
                return await memory.hmget("{onsale}:stock", "free", "held") == ["6", "2"]

        await until(hears_again, "the line is told what has changed meanwhile")


async def test_a_stock_that_starts_without_redis_serves(
    settings: Settings, pool: Pool, valkey_server: ControlledServer
) -> None:
    await valkey_server.kill()
    async with open_counter(settings.model_copy(update={"redis_url": valkey_server.url}), pool) as counter:
        await counter.world.fungible(total=10)
        async with asyncio.timeout(30):
            await counter.hold(counter.shop)
            assert (await counter.api.get("/readyz")).status_code == 200
