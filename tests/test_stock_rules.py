"""The rules of a sale at the store: who may buy how much and when, and what a seller may change under the buyers."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from chassis.database import Pool
from counters.rules import Line, Refused, Seat, SkuSettings
from tests.stock_world import World, codes, held


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def test_a_buyers_limit_counts_held_paying_and_sold_over_its_group(world: World) -> None:
    await world.fungible("early", buyer_max=4, limit_group="festival")
    await world.fungible("late", buyer_max=4, limit_group="festival")
    words = codes(
        await asyncio.gather(*(world.reserve(Line(("early", "late")[n % 2], 1), buyer="ada") for n in range(10)))
    )
    assert words.count("done") == 4 and words.count("buyer-limit") == 6
    assert codes([await world.reserve(Line("late", 1), buyer="bob")]) == ["done"]
    await world.expire()
    assert codes([await world.reserve(Line("early", 4), buyer="ada")]) == ["done"]


@pytest.mark.parametrize(
    "rules",
    [{"state": "draft"}, {"state": "halted"}, {"state": "ended"}, {"on_sale_at": datetime(2999, 1, 1, tzinfo=UTC)}],
)
async def test_what_is_not_on_sale_is_not_sold(world: World, rules: dict[str, Any]) -> None:
    await world.fungible(**rules)
    assert codes([await world.reserve(Line("ticket", 1))]) == ["not-on-sale"]
    assert codes([await world.reserve(Line("ticket", 1), Line("ticket", 1))]) == ["not-on-sale"]


async def test_a_sku_with_a_room_needs_that_rooms_pass(world: World) -> None:
    await world.fungible(room="onsale")
    outcomes = [await world.reserve(Line("ticket", 1), room=room) for room in (None, "other", "onsale")]
    assert codes(outcomes) == ["other-room", "other-room", "done"]


async def test_lines_of_one_limit_group_count_together(world: World) -> None:
    await world.fungible("early", buyer_max=4, limit_group="festival")
    await world.fungible("late", buyer_max=4, limit_group="festival")
    refused = await world.reserve(Line("early", 3), Line("late", 2), buyer="ada")
    assert isinstance(refused, Refused) and refused.code == "buyer-limit"
    assert (refused.facts["limit"], refused.facts["taken"], refused.facts["asked"]) == (4, 0, 5)
    assert codes([await world.reserve(Line("early", 2), Line("late", 2), buyer="ada")]) == ["done"]


async def test_a_limit_cannot_be_passed_by_leaving_the_buyer_out(world: World) -> None:
    await world.fungible(buyer_max=2)
    assert codes([await world.reserve(Line("ticket", 1))]) == ["buyer-missing"]
    assert await world.counts() == (10, 0, 0)


async def test_a_cart_follows_its_strictest_rules(world: World) -> None:
    await world.fungible("a", hold_seconds=300, payment_seconds_max=900, extensions_max=5)
    await world.fungible("b", hold_seconds=10, hold_seconds_max=60, payment_seconds_max=20, extensions_max=1)
    hold = held(await world.reserve(Line("a", 1), Line("b", 1)))
    assert codes([await world.stock.extend(hold.name, hold.fence, "shop:box", 50)]) == ["done"]
    assert codes([await world.stock.extend(hold.name, hold.fence, "shop:box", 60)]) == ["extension-limit"]
    await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    seconds = await world.pool.fetchval(
        "SELECT extract(epoch FROM paying_until - paying_started_at)::int FROM stock.holds"
    )
    assert seconds == 20


async def test_a_room_called_shop_makes_nobody_a_shop(world: World) -> None:
    await world.fungible()
    foreign = held(await world.reserve(Line("ticket", 1), actor="buyer:onsale:somebody"))
    assert codes([await world.stock.hold(foreign.name, "buyer:shop:ticket")]) == ["not-found"]
    assert codes([await world.stock.release(foreign.name, foreign.fence, "buyer:shop:ticket")]) == ["not-found"]


async def test_a_seated_sku_is_never_created_without_its_seats(world: World) -> None:
    settings = SkuSettings(title="Hall", kind="seated", total=5).checked()
    assert codes([await world.stock.put_sku("hall", settings, "operator:test")]) == ["seats-missing"]
    assert await world.stock.levels() == []
    empty = SkuSettings(title="Hall", kind="seated", seats=()).checked()
    assert codes([await world.stock.put_sku("hall", empty, "operator:test")]) == ["done"]
    assert await world.faults() == []


async def test_what_a_sku_is_made_of_cannot_be_changed_by_putting_it_again(world: World) -> None:
    await world.seated(rows=1, seats=2)
    await world.fungible("ticket", total=5, shards=2)
    other = (Seat(seat="A-1", section="stalls", row="A", number=1, tier="cheap"),)
    for name, settings, field in (
        ("hall", SkuSettings(title="Hall", kind="seated", seats=other), "seats"),
        ("hall", SkuSettings(title="Hall", total=2), "kind"),
        ("ticket", SkuSettings(title="Ticket", total=5, shards=3), "shards"),
    ):
        refused = await world.stock.put_sku(name, settings.checked(), "operator:test")
        assert isinstance(refused, Refused) and (refused.code, refused.facts["field"]) == ("fixed", field)
    assert await world.faults() == []


async def test_units_of_due_holds_do_not_stand_in_a_sellers_way(world: World) -> None:
    await world.fungible(total=10)
    await world.hold(quantity=8)
    await world.expire()
    await world.fungible(total=5)
    assert await world.counts() == (5, 0, 0)
    assert await world.faults() == []


async def test_a_seller_who_restates_the_total_never_undercuts_what_is_given(world: World) -> None:
    await world.fungible(total=10, shards=4)
    await world.hold(quantity=6)
    sku = await world.fungible(total=7, shards=4)
    assert await world.counts() == (1, 6, 0)
    refused = await world.stock.put_sku("ticket", await _settings(world, sku.name, total=5), "operator:test")
    assert isinstance(refused, Refused) and refused.code == "below-commitments"
    assert (refused.facts["held"], refused.facts["sold"]) == (6, 0)
    await world.fungible(total=20, shards=4)
    assert await world.counts() == (14, 6, 0)
    assert await world.faults() == []


async def test_seller_and_buyers_never_overwrite_each_other(world: World) -> None:
    await world.fungible(total=200, shards=8)

    async def seller() -> None:
        for total in (300, 250, 400, 350):
            await world.fungible(total=total, shards=8)

    await asyncio.gather(seller(), *(world.hold() for _ in range(150)))
    assert await world.counts() == (200, 150, 0)
    assert await world.faults() == []


async def _settings(world: World, name: str, total: int) -> SkuSettings:
    sku = await world.stock.find_sku(name)
    assert sku is not None
    return msgspec.structs.replace(sku.settings, total=total)
