"""Opposite orders never deadlock: seats, buyers, keys and sub-counters are locked in the one order, whoever asks first."""

import asyncio
import random
import secrets
from typing import Any
from uuid import UUID

import pytest

from chassis.database import Pool
from counters.calls import statement
from counters.ids import new_hold_id, new_operation_id
from counters.rules import Done, Line, Refused, SkuSettings
from tests.stock_world import World, codes

DEADLOCKS = (
    "SELECT pg_stat_force_next_flush(), (SELECT deadlocks FROM pg_stat_database WHERE datname = current_database())"
)

# Every hold that nobody is working on is past its deadline from now on.
RUN_OUT = """
    WITH live AS MATERIALIZED (SELECT sku_id, id FROM stock.holds WHERE state = 'held' ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE stock.holds AS hold SET expires_at = clock_timestamp() - interval '1 ms'
      FROM live WHERE hold.sku_id = live.sku_id AND hold.id = live.id"""


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def deadlocks(world: World) -> int:
    """How many the database has had to break up; verbs would hide them by trying again."""
    row = await world.pool.fetchrow(DEADLOCKS)
    assert row is not None
    return int(row["deadlocks"])


async def test_a_thousand_overlapping_seat_sets_in_both_orders(world: World) -> None:
    await world.seated(rows=4, seats=10)
    chance = random.Random(3)
    seats = [f"{row}-{number}" for row in "ABCD" for number in range(1, 11)]
    asked = [chance.sample(seats, chance.randint(2, 5)) for _ in range(500)]
    carts = [tuple(sorted(names)) for names in asked] + [tuple(sorted(names, reverse=True)) for names in asked]
    chance.shuffle(carts)
    turns = asyncio.Semaphore(100)

    async def buyer(names: tuple[str, ...]) -> Done | Refused:
        async with turns:
            return await world.reserve(Line("hall", seats=names))

    outcomes = await asyncio.gather(*(buyer(names) for names in carts))
    words = codes(outcomes)
    assert set(words) == {"done", "seat-taken"}
    taken = [name for names, word in zip(carts, words, strict=True) if word == "done" for name in names]
    assert len(taken) == len(set(taken))
    assert await deadlocks(world) == 0
    assert await world.faults() == []


async def test_carts_over_several_skus_in_opposite_orders(world: World) -> None:
    for name in ("one", "two", "three"):
        await world.fungible(name, total=400, shards=4, buyer_max=1000, limit_group=name if name == "one" else "both")
    lines = [Line("one", 1), Line("two", 1), Line("three", 1)]
    outcomes = await asyncio.gather(
        *(world.reserve(*(lines if place % 2 else lines[::-1]), buyer=f"buyer {place % 3}") for place in range(150))
    )
    assert codes(outcomes) == ["done"] * 150
    assert await deadlocks(world) == 0
    assert await world.faults() == []


async def test_imports_in_the_order_of_names_beside_carts_in_the_order_of_numbers(world: World) -> None:
    for name in ("zoo", "ark"):  # the later name has the smaller number
        await world.fungible(name, total=10_000, shards=8)

    async def seller() -> None:
        for total in range(10_001, 10_016):
            settings = SkuSettings(title="sold", total=total, shards=8)
            await world.stock.import_skus({"ark": settings, "zoo": settings}, "operator:test")

    carts = [world.reserve(Line("ark", 1), Line("zoo", 1)) for _ in range(60)]
    _, *outcomes = await asyncio.gather(seller(), *carts)
    assert codes([outcome for outcome in outcomes if outcome is not None]) == ["done"] * 60
    assert await deadlocks(world) == 0
    assert await world.faults() == []


async def test_batches_with_keys_and_buyers_in_opposite_orders(world: World) -> None:
    """Two workers send the same keys and buyers at the same moment, one of them backwards, to other sub-counters."""
    sku = await world.fungible(total=100_000, shards=8, buyer_max=1000)
    members = [(UUID(bytes=secrets.token_bytes(16)), f"buyer {place}") for place in range(60)]

    def arguments(order: list[tuple[UUID, str]], hash_: int) -> tuple[Any, ...]:
        count = len(order)
        return (
            sku.id, [new_hold_id(sku.id) for _ in order], [slot for slot, _ in order], [b"f"] * count, [hash_] * count,
            [1] * count, ['[{"sku":"ticket","quantity":1}]'] * count, [None] * count, ["shop:box"] * count, [None] * count,
            [buyer for _, buyer in order], [new_operation_id() for _ in order],
        )  # fmt: skip

    call = statement("reserve", 12)
    for _ in range(15):
        both = await asyncio.gather(
            world.pool.fetch(call, *arguments(members, 0)), world.pool.fetch(call, *arguments(members[::-1], 1))
        )
        granted = [[row["place"] for row in rows if row["outcome"] == "granted"] for rows in both]
        assert sum(map(len, granted)) == 60, "each key has one effect"
        members = [(UUID(bytes=secrets.token_bytes(16)), buyer) for _, buyer in members]
    assert await deadlocks(world) == 0
    assert await world.faults() == []


async def test_lanes_tails_carts_and_sweeps_at_once(world: World) -> None:
    await world.fungible(total=60, shards=4, buyer_max=50)
    await world.fungible("other", total=60, shards=2)
    workers = (world, World(world.pool))

    async def shopper(place: int) -> None:
        worker = workers[place % 2]
        lines = (Line("ticket", 1 + place % 3), Line("other", 1))[: 1 + place % 2]
        outcome = await worker.reserve(*(lines if place % 4 else lines[::-1]), buyer=f"buyer {place % 5}")
        if place % 3 == 0:
            await world.pool.execute(RUN_OUT)
            await worker.stock.expire_due()
        assert codes([outcome])[0] in ("done", "sold-out", "insufficient-stock", "buyer-limit")

    await asyncio.gather(*(shopper(place) for place in range(200)))
    assert await deadlocks(world) == 0
    assert await world.faults() == []
