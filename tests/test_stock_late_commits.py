"""What was judged in time and commits after the deadline: nobody else may act as if it had not happened."""

import asyncio

import pytest

from chassis.database import Pool
from counters.rules import Line
from tests.stock_world import World, codes
from tests.test_stock_interleavings import due, ends_soon, first, waits


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


@pytest.mark.parametrize("verb", ["confirm", "start_payment", "extend"])
async def test_a_buyers_limit_counts_a_hold_that_is_saved_at_its_deadline(world: World, verb: str) -> None:
    await world.fungible(total=10, shards=4, buyer_max=1)
    hold = await world.hold(buyer="ann")
    await ends_soon(world, hold)
    async with first(world) as other:
        if verb == "confirm":
            assert await other.confirm(hold) == "done"
        elif verb == "extend":
            assert await other.extend(hold, 100) == "done"
        else:
            arguments = ([hold.name.id], [hold.fence], ["shop:box"], [None])
            assert await other.call(verb, hold.name.sku_id, *arguments) == "done"
        await due(world, hold)
        second = await waits(world, world.reserve(Line("ticket", 1), buyer="ann"))
    assert codes([await second]) == ["buyer-limit"]
    assert (await world.counts())[0] == 9


async def test_a_limit_counts_it_over_its_group_and_in_a_cart(world: World) -> None:
    for name in ("early", "late"):
        await world.fungible(name, total=10, shards=2, buyer_max=1, limit_group="festival")
    await world.fungible("badge", total=10)
    hold = await world.hold("early", buyer="ann")
    await ends_soon(world, hold)
    async with first(world) as other:
        assert await other.confirm(hold) == "done"
        await due(world, hold)
        cart = await waits(world, world.reserve(Line("late", 1), Line("badge", 1), buyer="ann"))
        alone = asyncio.create_task(world.reserve(Line("late", 1), buyer="ann"))
    assert codes([await cart, await alone]) == ["buyer-limit"] * 2
    assert await world.counts("late") == (10, 0, 0)


async def test_a_buyers_own_due_hold_ends_before_a_limit_refuses(world: World) -> None:
    await world.fungible(total=10, shards=4, buyer_max=1)
    await world.fungible("badge", total=10)
    await world.expire(await world.hold(buyer="ann"))
    assert codes([await world.reserve(Line("ticket", 1), buyer="ann")]) == ["done"]
    await world.expire()
    assert codes([await world.reserve(Line("ticket", 1), Line("badge", 1), buyer="ann")]) == ["done"]
    assert await world.faults() == []


async def test_a_cart_that_waited_past_the_end_of_the_sale_is_not_granted(world: World) -> None:
    sku = await world.fungible(total=10, shards=1)
    await world.fungible("badge", total=10, shards=1)
    async with world.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM stock.sub_counters WHERE sku_id = $1 FOR UPDATE", sku.id)
        cart = await waits(world, world.reserve(Line("ticket", 1), Line("badge", 1)))
        await world.pool.execute("UPDATE stock.skus SET off_sale_at = clock_timestamp() WHERE id = $1", sku.id)
    assert codes([await cart]) == ["not-on-sale"]


async def test_a_lost_key_takes_nothing_from_its_buyers_limit(world: World) -> None:
    """The first key has its effect on another SKU; whoever comes behind it in the same statement is judged without it."""
    await world.fungible("other", total=10)
    await world.fungible(total=10, shards=1, buyer_max=1)
    await world.reserve(Line("other", 1), key="spent")
    both = await asyncio.gather(
        world.reserve(Line("ticket", 1), key="spent", buyer="ann"), world.reserve(Line("ticket", 1), buyer="ann")
    )
    assert codes(both) == ["key-reused", "done"]
    assert await world.faults() == []
