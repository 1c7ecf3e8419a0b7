"""Idempotency keys that are forgotten: not before their time, not while their hold lives, and never in anybody's way."""

from datetime import UTC, datetime, timedelta

import pytest

from chassis.database import Pool
from counters.functions import verbs_schema
from counters.rules import Line
from tests.stock_world import World, codes

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def age(world: World, hours: int) -> None:
    """Make the records that there are so many hours older."""
    await world.pool.execute(
        "UPDATE stock.idempotency SET created_at = created_at - make_interval(hours => $1),"
        " operation_id = uuidv7(created_at - make_interval(hours => $1) - clock_timestamp())",
        hours,
    )


async def keys(world: World) -> int:
    return int(await world.pool.fetchval("SELECT count(*) FROM stock.idempotency"))


async def test_a_key_answers_until_it_is_forgotten_and_has_a_new_effect_only_after(world: World) -> None:
    sku = await world.fungible(total=10)
    hold = await world.hold(key="k")
    await world.stock.release(hold.name, hold.fence, "shop:box")
    await age(world, 25)
    assert codes([await world.reserve(Line("ticket", 1), key="k")]) == ["replayed"]
    assert await world.stock.prune(sku.id, LATER, 100) == 1
    assert codes([await world.reserve(Line("ticket", 1), key="k")]) == ["done"]
    assert await world.counts() == (9, 1, 0)
    assert await world.faults() == []


async def test_no_key_is_forgotten_within_its_day_whatever_is_asked(world: World) -> None:
    sku = await world.fungible(total=10)
    hold = await world.hold(key="k")
    await world.stock.release(hold.name, hold.fence, "shop:box")
    await age(world, 23)
    assert await world.stock.prune(sku.id, LATER, 100) == 0
    await age(world, 50)
    assert await world.stock.prune(sku.id, datetime.now(UTC) - timedelta(hours=100), 100) == 0
    assert await world.stock.prune(sku.id, datetime.now(UTC) - timedelta(hours=48), 100) == 1


async def test_the_key_of_a_hold_that_lives_is_kept(world: World) -> None:
    sku = await world.fungible(total=10)
    held, paying, sold = [await world.hold(key=key) for key in ("held", "paying", "sold")]
    await world.stock.start_payment(paying.name, paying.fence, "shop:box", None)
    await world.confirm(sold)
    await age(world, 25)
    assert await world.stock.prune(sku.id, LATER, 100) == 2, "the sold one's reserve and its confirm"
    assert codes([await world.reserve(Line("ticket", 1), key=key) for key in ("held", "paying")]) == ["replayed"] * 2
    await world.expire(held)
    await world.stock.expire_due()
    assert await world.stock.prune(sku.id, LATER, 100) == 1
    assert await keys(world) == 1


async def test_forgetting_is_bounded_oldest_first_and_within_one_sku(world: World) -> None:
    sku = await world.fungible(total=10)
    other = await world.fungible("other", total=10)
    for name in ("ticket", "other"):
        for number in range(3):
            hold = await world.hold(name, key=f"{name}-{number}")
            await world.stock.release(hold.name, hold.fence, "shop:box")
    await age(world, 25)
    assert [await world.stock.prune(sku.id, LATER, 2) for _ in range(3)] == [2, 1, 0]
    assert await keys(world) == 3
    assert await world.stock.prune(other.id, LATER, 100) == 3


async def test_records_without_a_hold_are_forgotten_too(world: World) -> None:
    sku = await world.fungible(total=10)
    await world.pool.execute(
        "INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id)"
        " VALUES ($1, gen_random_uuid(), '', '{}', uuidv7())",
        sku.id,
    )
    await age(world, 25)
    assert await world.stock.prune(sku.id, LATER, 100) == 1


async def test_forgetting_waits_for_nobody(world: World) -> None:
    sku = await world.fungible(total=10)
    hold = await world.hold(key="k")
    await world.stock.release(hold.name, hold.fence, "shop:box")
    await age(world, 25)
    async with world.pool.acquire() as connection, connection.transaction():
        await connection.fetch(f"SELECT * FROM {verbs_schema()}.prune($1, now(), 10)", sku.id)
        assert await world.stock.prune(sku.id, LATER, 100) == 0
    assert await keys(world) == 0
