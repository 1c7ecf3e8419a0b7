"""Rebalance: free units move between sub-counters, none appears or vanishes, and the ledger shows both sides."""

import pytest

from chassis.database import Pool
from counters.rules import Line
from tests.stock_world import World, held


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
