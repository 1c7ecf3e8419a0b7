"""The tail: near sell-out every unit is found, nobody hears sold-out while there is one, and what is beyond is marked."""

import asyncio
import random

import orjson
import pytest

from chassis.database import Pool
from counters.rules import Done, Line, Refused
from tests.stock_world import World, codes, held


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


@pytest.mark.parametrize("shards", [1, 7, 64, 1024])
async def test_random_quantities_drain_random_shards_to_the_last_unit(world: World, shards: int) -> None:
    """Nothing comes back here, so whoever was refused asked for more than there is at the end."""
    chance = random.Random(shards)
    await world.fungible(total=700, shards=shards)
    workers = (world, World(world.pool))
    quantities = [chance.choice((1, 1, 2, 3, 5, 8, 13)) for _ in range(400)]
    outcomes = await asyncio.gather(
        *(chance.choice(workers).reserve(Line("ticket", quantity)) for quantity in quantities)
    )
    available, units, _ = await world.counts()
    assert units == 700 - available
    refused = [
        (asked, outcome) for asked, outcome in zip(quantities, outcomes, strict=True) if isinstance(outcome, Refused)
    ]
    assert refused and all(asked > available for asked, _ in refused)
    for asked, outcome in refused:
        assert outcome.code == ("sold-out" if outcome.facts["available"] == 0 else "insufficient-stock")
        left = outcome.facts["available"]
        assert isinstance(left, int) and available <= left < asked
    assert await world.faults() == []


async def test_due_holds_under_load_are_sold_again_to_the_last_unit(world: World) -> None:
    await world.fungible(total=300, shards=16)
    await asyncio.gather(*(world.hold(quantity=2) for _ in range(150)))
    assert codes([await world.reserve(Line("ticket", 1))]) == ["sold-out"]
    await world.expire()
    outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 1)) for _ in range(400)))
    assert codes(outcomes).count("done") == 300
    assert codes(outcomes).count("sold-out") == 100
    assert await world.faults() == []


async def test_refusals_and_replays_after_sell_out_are_told_apart_in_one_batch(world: World) -> None:
    await world.fungible(total=5, shards=4)
    first = [await world.reserve(Line("ticket", 1), key=f"early {place}") for place in range(5)]
    keys = [f"early {place}" if place < 5 else f"late {place}" for place in range(200)]
    outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 1), key=key) for key in keys))
    assert codes(outcomes[:5]) == ["replayed"] * 5
    assert [one.document for one in outcomes[:5] if isinstance(one, Done)] == [
        one.document for one in first if isinstance(one, Done)
    ]
    assert set(codes(outcomes[5:])) == {"sold-out"}
    assert codes([await world.reserve(Line("ticket", 2), key="early 0")]) == ["key-reused"]


async def test_a_refusal_tells_sold_from_merely_held(world: World) -> None:
    await world.fungible(total=3, shards=2)
    sold, kept, _ = [await world.hold() for _ in range(3)]
    await world.confirm(sold)
    refused = await world.reserve(Line("ticket", 1))
    assert isinstance(refused, Refused)
    assert (refused.code, refused.facts["available"], refused.facts["held"]) == ("sold-out", 0, 2)
    assert refused.facts["next_release_at"] == kept.document["expires_at"]


async def test_a_refusal_counts_as_held_what_its_own_batch_was_given(world: World) -> None:
    """Two units on two sub-counters: no lane can give both, so the tail gives them to one and refuses the others beside it."""
    await world.fungible(total=2, shards=2)
    outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 2)) for _ in range(12)))
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    assert len(refused) == 11
    assert {(outcome.facts["available"], outcome.facts["held"]) for outcome in refused} == {(0, 2)}


async def test_limits_hold_inside_one_batch_and_over_two_workers(world: World) -> None:
    await world.fungible(total=500, shards=8, buyer_max=3)
    workers = (world, World(world.pool))
    asked = [(workers[place % 2], f"buyer {place % 10}") for place in range(120)]
    outcomes = await asyncio.gather(*(worker.reserve(Line("ticket", 1), buyer=buyer) for worker, buyer in asked))
    assert codes(outcomes).count("done") == 30
    assert codes(outcomes).count("buyer-limit") == 90
    refused = next(outcome for outcome in outcomes if isinstance(outcome, Refused))
    assert refused.facts == {"sku": "ticket", "limit": 3, "taken": 3, "asked": 1}
    assert await world.faults() == []


async def test_an_inactive_sub_counter_takes_no_hold_in_a_lane_and_gives_in_the_tail(world: World) -> None:
    sku = await world.fungible(total=40, shards=4)
    await world.pool.execute("UPDATE stock.sub_counters SET active = shard = 0 WHERE sku_id = $1", sku.id)
    outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 1)) for _ in range(10)))
    assert codes(outcomes) == ["done"] * 10
    assert await world.pool.fetchval("SELECT array_agg(DISTINCT shard) FROM stock.hold_parts") == [0]
    assert codes([await world.reserve(Line("ticket", 30)), await world.reserve(Line("ticket", 1))]) == [
        "done",
        "sold-out",
    ]
    assert await world.faults() == []


async def test_what_is_sold_beyond_the_total_comes_last_and_is_marked(world: World) -> None:
    sku = await world.fungible(total=10, shards=2)
    await world.pool.execute("UPDATE stock.sub_counters SET allowance = 2 WHERE sku_id = $1", sku.id)
    plain = held(await world.reserve(Line("ticket", 9)))
    mixed = held(await world.reserve(Line("ticket", 2)))
    cart = held(await world.reserve(Line("ticket", 1), Line("ticket", 2)))
    assert "backordered" not in plain.document
    assert (mixed.document["backordered"], cart.document["backordered"]) == (1, 3)
    refused = await world.reserve(Line("ticket", 1))
    assert isinstance(refused, Refused) and refused.code == "sold-out"
    assert await world.pool.fetchval("SELECT sum(backordered) FROM stock.hold_parts") == 4
    again = await world.stock.hold(mixed.name, None)
    assert isinstance(again, Done) and orjson.loads(again.document)["backordered"] == 1
