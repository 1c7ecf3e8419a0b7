"""Holds that are due but unswept: never in the way of whoever asks for their units, and never a burden to other SKUs."""

from uuid import uuid4

import pytest

from chassis.database import Connection, Pool, make_pool
from chassis.settings import Settings
from counters.calls import statement
from counters.ids import new_hold_id, new_operation_id
from counters.lanes import LaneSettings
from counters.rules import Line
from counters.store import Stock
from tests.stock_world import World, codes, held
from tests.test_stock_hold_batches import rows_read
from tests.test_stock_interleavings import due, first, waits

DUE = 20_000
DUE_HOLDS = """
    INSERT INTO stock.holds (sku_id, id, state, fence, expires_at, actor, lines, quantity, created_at)
    SELECT $1, uuidv7(), 'held', number, now() - number * interval '1 ms', 'shop:box', '[]', 1, now() - interval '10 min'
      FROM generate_series(1, $2::integer) AS number"""
DUE_PARTS = """
    INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity)
    SELECT sku_id, id, 0, sku_id, 1 FROM stock.holds WHERE sku_id = $1"""
ENDED_HOLDS = """
    INSERT INTO stock.holds (sku_id, id, state, fence, expires_at, actor, lines, quantity, created_at, ended_at)
    SELECT $1, uuidv7(), 'expired', number, now(), 'shop:box', '[]', 2, now(), now()
      FROM generate_series(1, $2::integer) AS number"""
ENDED_PARTS = """
    INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity)
    SELECT $2, id, 0, sku_id, 1 FROM stock.holds WHERE sku_id = $1"""


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def ends_in_a_second(world: World) -> None:
    await world.pool.execute("UPDATE stock.holds SET expires_at = clock_timestamp() + interval '1 s'")


async def ask_the_tail(connection: Connection, sku_id: int, quantity: int) -> str:
    (row,) = await connection.fetch(
        statement("reserve_tail", 11), sku_id, [new_hold_id(sku_id)], [uuid4()], [b"f"], [quantity], ["[]"], [None],
        ["shop:box"], [None], [None], [new_operation_id()],
    )  # fmt: skip
    return str(row["outcome"])


async def test_the_tail_refuses_nothing_that_fell_due_while_it_waited_to_look(world: World) -> None:
    """One unit is free until somebody takes it; before that the other one's hold falls due: there is one at every moment."""
    sku = await world.fungible(total=2, shards=1)
    late = await world.hold()
    async with world.pool.acquire() as connection:
        assert await ask_the_tail(connection, sku.id, 3) == "insufficient-stock", "compiled from here on"
        await ends_in_a_second(world)
        async with first(world) as other:
            await other.connection.execute("LOCK TABLE stock.skus IN ACCESS EXCLUSIVE MODE")
            asking = await waits(world, ask_the_tail(connection, sku.id, 1))
            await due(world, late)
            assert await other.reserve(sku.id, "theirs") == "granted"
        assert await asking == "reclaim"


async def test_a_cart_is_refused_nothing_that_fell_due_while_it_waited_to_look(world: World) -> None:
    sku = await world.fungible(total=2, shards=1)
    await world.fungible("mug")
    late = await world.hold()
    wanted = await world.reservation(Line("ticket", 1), Line("mug", 1))
    await ends_in_a_second(world)
    async with first(world) as other:
        await other.connection.execute("LOCK TABLE stock.idempotency IN ACCESS EXCLUSIVE MODE")
        asking = await waits(world, world.stock.reserve(wanted))
        await due(world, late)
        assert await other.reserve(sku.id, "theirs") == "granted"
    assert codes([await asking]) == ["done"]
    assert await world.faults() == []


@pytest.mark.timeout(300)
async def test_due_holds_of_another_sku_cost_a_refusal_and_a_reclaim_nothing(settings: Settings) -> None:
    async with make_pool(settings, connections=1) as pool:
        world = World(pool, Stock(pool, LaneSettings(lanes=1)))
        other = await world.fungible("other", total=2 * DUE, shards=1)
        await world.fungible(total=2, shards=1)
        await world.seated()
        await pool.execute(DUE_HOLDS, other.id, DUE)
        await pool.execute(DUE_PARTS, other.id)
        await world.hold(quantity=2)
        cart = held(await world.reserve(Line("other", 1), Line("hall", seats=("A-1",))))
        for statistics in (False, True):
            if statistics:
                await pool.execute("ANALYZE stock.holds, stock.hold_parts")
            async with pool.acquire() as connection:
                before = await rows_read(connection)
            assert codes([await world.reserve_once(Line("ticket", 1))]) == ["sold-out"]
            assert codes([await world.reserve_once(Line("ticket", 1), Line("hall", seats=("A-2",)))]) == ["sold-out"]
            assert codes([await world.reserve_once(Line("hall", seats=("A-1",)))]) == ["seat-taken"]
            await world.stock.levels(["ticket", "hall"])
            hall = await world.stock.find_sku("hall")
            assert hall is not None
            await world.stock.seats(hall.id)
            async with pool.acquire() as connection:
                assert await rows_read(connection) - before < DUE / 40
        await world.expire(cart)
        async with pool.acquire() as connection:
            before = await rows_read(connection)
        assert codes([await world.reserve_once(Line("hall", seats=("A-1",)))]) == ["done"]
        async with pool.acquire() as connection:
            assert await rows_read(connection) - before < DUE / 40


@pytest.mark.parametrize("others", [0, 600])
async def test_units_of_a_due_cart_come_back_however_many_carts_had_the_sku(world: World, others: int) -> None:
    ticket = await world.fungible(total=10)
    parking = await world.fungible("parking", total=1, shards=1)
    await world.pool.execute(ENDED_HOLDS, ticket.id, others)
    await world.pool.execute(ENDED_PARTS, ticket.id, parking.id)
    cart = held(await world.reserve(Line("ticket", 1), Line("parking", 1)))
    assert codes([await world.reserve(Line("parking", 1))]) == ["sold-out"]
    await world.expire(cart)
    assert (await world.counts("parking"))[0] == 1
    assert codes([await world.reserve(Line("parking", 1))]) == ["done"]
    assert await world.faults() == []
