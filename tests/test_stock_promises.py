"""What users of other systems complain of, as promises: one test each that no other file here has already."""

import asyncio

import orjson
import pytest

from chassis.database import Pool
from counters.rules import Done, Line
from tests.stock_world import World, codes, held

ROWS = """
    SELECT (SELECT count(*) FROM stock.holds) AS holds, (SELECT count(*) FROM stock.hold_parts) AS parts,
           (SELECT count(*) FROM stock.idempotency) AS keys, (SELECT count(*) FROM stock.ledger WHERE hold_id IS NOT NULL) AS moves"""


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def test_the_loser_of_the_last_unit_leaves_nothing_behind(world: World) -> None:
    await world.fungible(total=1, shards=4)
    outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 1)) for _ in range(30)))
    assert codes(outcomes).count("done") == 1
    row = await world.pool.fetchrow(ROWS)
    assert row is not None and dict(row) == {"holds": 1, "parts": 1, "keys": 1, "moves": 1}


async def test_two_confirms_for_one_unit_are_impossible_since_the_hold_is_the_unit(world: World) -> None:
    await world.fungible(total=1)
    first = await world.hold()
    await world.expire(first)
    second = await world.hold()
    outcomes = await asyncio.gather(world.confirm(first), world.confirm(second))
    assert codes(outcomes) == ["hold-expired", "done"]
    assert await world.counts() == (0, 0, 1)


async def test_every_sale_has_exactly_one_confirm_in_the_ledger(world: World) -> None:
    await world.fungible(total=40, shards=4)
    holds = [await world.hold() for _ in range(20)]
    await asyncio.gather(*(world.confirm(hold) for hold in holds for _ in range(3)))
    assert await world.pool.fetchval("SELECT count(*) FROM stock.sales") == 20
    assert (
        await world.pool.fetch(
            "SELECT hold_id FROM stock.ledger WHERE verb = 'confirm' GROUP BY hold_id HAVING count(*) <> 1 OR sum(sold_delta) <> 1"
        )
        == []
    )


async def test_available_held_and_sold_add_up_at_every_moment(world: World) -> None:
    await world.fungible(total=120, shards=8)
    busy = True

    async def look() -> int:
        looks = 0
        while busy:
            assert sum(await world.counts()) == 120
            looks += 1
        return looks

    async def shop(place: int) -> None:
        outcome = await world.reserve(Line("ticket", 1 + place % 3))
        if isinstance(outcome, Done) and place % 3 == 0:
            await world.confirm(held(outcome))
        elif isinstance(outcome, Done):
            hold = held(outcome)
            await world.stock.release(hold.name, hold.fence, "shop:box")

    looking = asyncio.create_task(look())
    await asyncio.gather(*(shop(place) for place in range(150)))
    busy = False
    assert await looking > 3
    assert await world.faults() == []


async def test_units_given_back_are_not_offered_outside_the_sales_window(world: World) -> None:
    sku = await world.fungible(total=1)
    hold = await world.hold()
    await world.pool.execute("UPDATE stock.skus SET off_sale_at = clock_timestamp() WHERE id = $1", sku.id)
    await world.stock.release(hold.name, hold.fence, "shop:box")
    assert codes([await world.reserve(Line("ticket", 1))]) == ["not-on-sale"]


async def test_no_state_of_a_hold_lacks_an_exit(world: World) -> None:
    await world.fungible(total=10, extensions_max=0)
    live = [await world.hold() for _ in range(4)]
    for hold in live[2:]:
        await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    ends = [
        await world.stock.release(live[0].name, live[0].fence, "shop:box"),
        await world.confirm(live[1]),
        await world.stock.resolve(
            live[2].name, "unpaid", overdue_only=False, actor="operator:ops", reason="the bank says no"
        ),
        await world.stock.resolve(
            live[3].name, "paid", overdue_only=False, actor="operator:ops", reason="the bank says yes"
        ),
    ]
    assert codes(ends) == ["done"] * 4
    assert await world.counts() == (8, 0, 2)


async def test_units_come_back_once_however_many_give_them_back(world: World) -> None:
    await world.fungible(total=30, shards=4)
    holds = [await world.hold() for _ in range(20)]
    await world.expire(*holds[:10])
    await asyncio.gather(
        *(world.stock.release(hold.name, hold.fence, "shop:box") for hold in holds for _ in range(2)),
        *(world.stock.expire_due() for _ in range(3)),
    )
    assert await world.counts() == (30, 0, 0)
    assert (
        await world.pool.fetch(
            "SELECT hold_id FROM stock.ledger WHERE held_delta < 0 GROUP BY hold_id HAVING count(*) <> 1"
        )
        == []
    )
    assert await world.faults() == []


async def test_a_cart_that_fails_makes_nobody_else_fail(world: World) -> None:
    await world.fungible("plenty", total=50, shards=4)
    await world.fungible("none", total=0)
    carts = [world.reserve(Line("plenty", 1), Line("none", 1)) for _ in range(60)]
    singles = [world.reserve(Line("plenty", 1)) for _ in range(50)]
    outcomes = await asyncio.gather(*(call for pair in zip(carts, singles, strict=False) for call in pair))
    assert codes(outcomes[1::2]) == ["done"] * 50
    assert set(codes(outcomes[0::2])) == {"sold-out"}
    for cart in carts[50:]:
        cart.close()


async def test_two_tabs_of_one_buyer_get_one_hold_where_the_seller_allows_one(world: World) -> None:
    await world.fungible(total=50, shards=8, buyer_max=1)
    outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 1), buyer="ada") for _ in range(10)))
    assert sorted(codes(outcomes)) == ["buyer-limit"] * 9 + ["done"]


async def test_the_first_answer_is_the_same_bytes_ever_after(world: World) -> None:
    await world.fungible(total=5, extensions_max=3)
    first = await world.reserve(Line("ticket", 2), key="k")
    hold = held(first)
    await world.stock.extend(hold.name, hold.fence, "shop:box", 600)
    await world.confirm(hold)
    again = await world.reserve(Line("ticket", 2), key="k")
    assert isinstance(first, Done) and isinstance(again, Done)
    assert again == Done(first.document, replayed=True)
    assert orjson.loads(again.document)["state"] == "held"
