"""Rebalance: free units move between sub-counters, none appears or vanishes, and the ledger shows both sides."""

import asyncio

import pytest

from chassis.database import Pool
from counters.rules import Line
from tests.stock_world import World, codes, held


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def free_units(world: World) -> list[int]:
    rows = await world.pool.fetch(
        "SELECT total + allowance - held - sold AS free FROM stock.sub_counters ORDER BY shard"
    )
    return [row["free"] for row in rows]


async def drain_one(world: World, shard: int) -> None:
    """Give all that one sub-counter has, as a burst of its own keys would."""
    key = 0
    while (await free_units(world))[shard] > 0:
        before = await free_units(world)
        key += 1
        outcome = await world.reserve(Line("ticket", 1), key=f"drain-{key}")
        after = await free_units(world)
        if before[shard] == after[shard]:
            hold = held(outcome)
            await world.stock.release(hold.name, hold.fence, "shop:box")


@pytest.mark.parametrize(("total", "shards"), [(7, 2), (15, 4), (100, 16), (3, 8)])
async def test_shares_are_even_and_no_unit_appears_or_vanishes(world: World, total: int, shards: int) -> None:
    sku = await world.fungible(total=total, shards=shards)
    await drain_one(world, 0)
    free = sum(await free_units(world))
    await world.stock.rebalance(sku.id, 0)
    levels = await free_units(world)
    assert sum(levels) == free and max(levels) - min(levels) <= 1
    assert await world.stock.rebalance(sku.id, 0) == 0, "a second pass has nothing to move"
    assert await world.faults() == []


async def test_both_sides_of_a_move_stand_in_the_ledger_under_one_operation(world: World) -> None:
    sku = await world.fungible(total=40, shards=4)
    await drain_one(world, 2)
    moved = await world.stock.rebalance(sku.id, 0)
    rows = await world.pool.fetch("SELECT operation_id, total_delta FROM stock.ledger WHERE verb = 'rebalance'")
    assert moved > 0 and len({row["operation_id"] for row in rows}) == 1
    assert sum(row["total_delta"] for row in rows) == 0
    assert sum(abs(row["total_delta"]) for row in rows) == 2 * moved


async def test_a_level_sku_is_left_alone(world: World) -> None:
    sku = await world.fungible(total=40, shards=4)
    await world.hold(quantity=2)
    assert await world.stock.rebalance(sku.id, 3) == 0
    assert await world.pool.fetchval("SELECT count(*) FROM stock.ledger WHERE verb = 'rebalance'") == 0


async def test_an_inactive_sub_counter_is_emptied_and_what_returns_to_it_is_not_lost(world: World) -> None:
    sku = await world.fungible(total=12, shards=3)
    hold = await world.hold(quantity=4)
    shard = await world.pool.fetchval("SELECT shard FROM stock.hold_parts")
    await world.pool.execute("UPDATE stock.sub_counters SET active = false WHERE shard = $1", shard)
    await world.stock.rebalance(sku.id, 0)
    assert (await free_units(world))[shard] == 0
    await world.stock.release(hold.name, hold.fence, "shop:box")
    assert codes([await world.reserve(Line("ticket", 12))]) == ["done"]
    assert await world.faults() == []


async def test_rebalance_and_buyers_never_hinder_or_double_each_other(world: World) -> None:
    sku = await world.fungible(total=120, shards=8)

    async def mover() -> int:
        return sum([await world.stock.rebalance(sku.id, 0) for _ in range(30)])

    buyers = [world.reserve(Line("ticket", 1 + number % 3)) for number in range(100)]
    moving = asyncio.create_task(mover())
    outcomes = await asyncio.gather(*buyers)
    await moving
    given = sum(1 + number % 3 for number, word in enumerate(codes(outcomes)) if word == "done")
    assert await world.counts() == (120 - given, given, 0)
    assert "sold-out" not in codes(outcomes) or given == 120
    assert await world.faults() == []
