"""What the shop may do at the till: sell a part of a hold, take an expired one again, cancel a sale."""

import asyncio
import random
import secrets
from functools import partial
from uuid import UUID

import msgspec
import orjson
import pytest

from chassis.database import Pool
from chassis.problems import Problem
from counters.ids import new_sale_id, sku_of_hold
from counters.rules import ConfirmBody, Done, Keyed, Line, Oversell, Refused, SaleName
from tests.stock_world import Held, World, codes, held, patiently


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def sell(
    world: World, hold: Held, *lines: Line, key: str | None = None, reacquire: bool = False, caller: str = "shop:box"
) -> Done | Refused:
    """Confirm the lines named, or all of the hold."""
    body = ConfirmBody(hold.fence, lines or None, reacquire).checked()
    keyed = Keyed(f"shop:box:confirm:{hold.name.id}", key or secrets.token_hex(8), b"\0" * 32)
    return await world.stock.confirm(hold.name, body.fence, caller, keyed, lines=body.lines, reacquire=body.reacquire)


def sale_of(outcome: Done | Refused) -> dict[str, object]:
    assert isinstance(outcome, Done), outcome
    document = orjson.loads(outcome.document)
    assert isinstance(document, dict)
    return document


def sale_name(outcome: Done | Refused) -> SaleName:
    sale_id = UUID(str(sale_of(outcome)["id"]))
    return SaleName(sale_id, sku_of_hold(sale_id))


async def moves(world: World, hold: Held) -> list[tuple[str, int, int]]:
    """(verb, held, sold) of the hold's ledger, each verb's rows summed."""
    return [
        (row["verb"], row["held"], row["sold"])
        for row in await world.pool.fetch(
            "SELECT verb, sum(held_delta)::bigint AS held, sum(sold_delta)::bigint AS sold FROM stock.ledger"
            " WHERE hold_id = $1 GROUP BY verb ORDER BY min(id)",
            hold.name.id,
        )
    ]


# A part of a hold


async def test_what_is_named_is_sold_and_the_rest_returns(world: World) -> None:
    await world.fungible(total=10, shards=3)
    hold = await world.hold(quantity=8)
    sale = sale_of(await sell(world, hold, Line("ticket", 2), Line("ticket", 1)))
    assert sale["lines"] == [{"sku": "ticket", "quantity": 2}, {"sku": "ticket", "quantity": 1}]
    assert await world.counts() == (7, 0, 3)
    assert await moves(world, hold) == [("reserve", 8, 0), ("release", -5, 0), ("confirm", -3, 3)]
    assert (
        await world.pool.fetchval("SELECT count(DISTINCT operation_id) FROM stock.ledger WHERE verb <> 'create'") == 2
    )
    assert await world.faults() == []


async def test_a_part_of_a_cart_leaves_its_other_skus_and_seats_free(world: World) -> None:
    await world.fungible("a", total=4, shards=2)
    await world.fungible("b", total=4, shards=2)
    await world.seated(rows=1, seats=4)
    hold = held(await world.reserve(Line("a", 3), Line("hall", seats=("A-1", "A-2", "A-3")), Line("b", 1)))
    sale = sale_of(await sell(world, hold, Line("hall", seats=("A-3", "A-1")), Line("a", 1)))
    assert sale["lines"] == [{"sku": "hall", "seats": ["A-3", "A-1"]}, {"sku": "a", "quantity": 1}]
    assert [await world.counts(sku) for sku in ("a", "hall", "b")] == [(3, 0, 1), (2, 0, 2), (4, 0, 0)]
    assert codes([await world.reserve(Line("hall", seats=("A-2",)))]) == ["done"]
    assert codes([await world.reserve(Line("hall", seats=("A-3",)))]) == ["seat-taken"]
    assert await world.faults() == []


async def test_confirming_again_answers_the_same_sale_whatever_the_key_and_the_lines(world: World) -> None:
    await world.fungible(total=10)
    hold = await world.hold(quantity=4)
    first = await sell(world, hold, Line("ticket", 2), key="a")
    again = [
        await sell(world, hold, Line("ticket", 2), key="a"),
        await sell(world, hold, Line("ticket", 3)),
        await sell(world, hold),
        await sell(world, hold, reacquire=True),
    ]
    assert codes(again) == ["replayed"] * 4
    assert [sale_of(outcome) for outcome in again] == [sale_of(first)] * 4
    assert await world.counts() == (8, 0, 2)


async def test_lines_that_are_no_part_of_the_hold_are_named_and_nothing_moves(world: World) -> None:
    await world.fungible(total=10)
    await world.fungible("other", total=10)
    await world.seated()
    hold = held(await world.reserve(Line("ticket", 2), Line("hall", seats=("A-1",))))
    refused = await sell(
        world, hold, Line("ticket", 2), Line("other", 1), Line("hall", seats=("A-1", "A-2")), Line("ticket", 1),
        Line("hall", 1), Line("no-such-sku", 1), Line("ticket", seats=("A-9",)),
    )  # fmt: skip
    assert isinstance(refused, Refused)
    assert (refused.code, refused.facts) == ("not-in-hold", {"lines": [1, 2, 3, 4, 5, 6]})
    assert await world.counts() == (8, 2, 0)
    assert codes([await sell(world, hold)]) == ["done"], "a refusal ends nothing"


async def test_a_line_names_a_quantity_or_seats_and_no_seat_twice() -> None:
    lines = (Line("a"), Line("a", 1, ("A-1",)), Line("b", seats=("A-1",)), Line("b", seats=("A-1",)))
    with pytest.raises(Problem) as raised:
        ConfirmBody(1, lines).checked()
    errors = raised.value.extensions["errors"]
    assert isinstance(errors, list)
    assert [error["pointer"] for error in errors] == ["/lines/0", "/lines/1", "/lines/3/seats"]


async def test_backordered_units_are_the_first_to_be_let_go(world: World) -> None:
    await world.fungible(total=3, shards=2, oversell=Oversell("bounded", 4))
    hold = await world.hold(quantity=6)
    assert hold.document["backordered"] == 3
    sale = sale_of(await sell(world, hold, Line("ticket", 4)))
    assert sale["backordered"] == 1
    assert await backordered(world, hold) == (1, 1)
    assert await world.counts() == (3, 0, 4)
    later = await world.hold(quantity=1)
    assert later.document["backordered"] == 1, "what was let go is beyond the total"
    assert await world.faults() == []


async def backordered(world: World, hold: Held) -> tuple[int, int]:
    """Backordered units as the hold says it, and as its parts say it."""
    row = await world.pool.fetchrow(
        "SELECT backordered, (SELECT sum(backordered) FROM stock.hold_parts WHERE hold_id = id)::bigint AS parts"
        " FROM stock.holds WHERE id = $1",
        hold.name.id,
    )
    assert row is not None
    return row["backordered"], row["parts"]


async def test_a_part_obeys_fence_deadline_and_end_of_the_hold(world: World) -> None:
    await world.fungible(total=10)
    stale, foreign, late, released = [await world.hold(quantity=2) for _ in range(4)]
    await world.stock.release(released.name, released.fence, "shop:box")
    await world.expire(late)
    newer = Held(stale.name, stale.fence + 1, stale.document)
    outcomes = [
        await sell(world, newer, Line("ticket", 1)),
        await sell(world, foreign, Line("ticket", 1), caller="shop:other"),
        await sell(world, late, Line("ticket", 1)),
        await sell(world, released, Line("ticket", 1)),
    ]
    assert codes(outcomes) == ["stale-fence", "not-found", "hold-expired", "hold-released"]
    assert (await world.counts())[2] == 0


# An expired hold, taken again


@pytest.mark.parametrize("swept", [True, False])
async def test_an_expired_hold_is_taken_again_where_its_units_are_free(world: World, swept: bool) -> None:
    await world.fungible("a", total=4, shards=2)
    await world.seated(rows=1, seats=3)
    hold = held(await world.reserve(Line("a", 4), Line("hall", seats=("A-1", "A-2"))))
    await world.expire()
    if swept:
        await world.stock.expire_due()
    assert codes([await sell(world, hold)]) == ["hold-expired"]
    outcome = await sell(world, hold, key="again", reacquire=True)
    fence = sale_of(outcome)["fence"]
    assert isinstance(fence, int) and fence > hold.fence
    assert [await world.counts(sku) for sku in ("a", "hall")] == [(0, 0, 4), (1, 0, 2)]
    assert await moves(world, hold) == [("reserve", 6, 0), ("expire", -6, 0), ("reacquire", 6, 0), ("confirm", -6, 6)]
    repeated = await sell(world, hold, key="again", reacquire=True)
    assert (codes([repeated]), sale_of(repeated)) == (["replayed"], sale_of(outcome))
    rows = await world.pool.fetch("SELECT fence FROM stock.sub_counters UNION SELECT max(fence) FROM stock.seats")
    assert {row["fence"] for row in rows} == {fence}
    assert await world.faults() == []


async def test_fungible_units_come_from_wherever_they_are_free(world: World) -> None:
    await world.fungible(total=6, shards=3)
    hold = await world.hold(quantity=2)
    await world.expire()
    await world.stock.expire_due()
    rest = await world.hold(quantity=4)
    assert codes([await sell(world, hold, reacquire=True)]) == ["done"]
    assert await world.counts() == (0, 4, 2)
    assert codes([await sell(world, rest)]) == ["done"]
    assert await world.faults() == []


async def test_what_others_have_meanwhile_is_not_taken_again(world: World) -> None:
    await world.fungible(total=3, shards=2)
    hold = await world.hold(quantity=3)
    await world.expire()
    await world.hold(quantity=1)
    refused = await sell(world, hold, reacquire=True)
    assert isinstance(refused, Refused) and refused.code == "hold-expired"
    assert {"reacquired": False, "reason": "insufficient-stock", "available": 2}.items() <= refused.facts.items()
    assert codes([await sell(world, hold, Line("ticket", 2), reacquire=True)]) == ["done"], "but a part of it may be"
    refused = await sell(world, await lapsed(world), reacquire=True)
    assert isinstance(refused, Refused) and refused.facts["reason"] == "sold-out"
    assert await world.faults() == []


async def lapsed(world: World) -> Held:
    """A swept hold of a unit that somebody else has now."""
    await world.expire()
    hold = await world.hold()
    await world.expire(hold)
    await world.hold()
    return hold


async def test_units_in_due_holds_of_others_are_free_for_whoever_takes_again(world: World) -> None:
    await world.fungible(total=2, shards=1)
    hold = await world.hold(quantity=2)
    await world.expire()
    other = await world.hold(quantity=2)
    await world.expire(other)
    assert codes([await sell(world, hold, reacquire=True)]) == ["done"]
    assert codes([await sell(world, other, reacquire=True)]) == ["hold-expired"]
    assert await world.faults() == []


async def test_seats_are_taken_again_exactly_or_not_at_all(world: World) -> None:
    await world.seated(rows=1, seats=4)
    hold = held(await world.reserve(Line("hall", seats=("A-1", "A-2"))))
    await world.expire()
    taken = held(await world.reserve(Line("hall", seats=("A-2",))))
    refused = await sell(world, hold, reacquire=True)
    assert isinstance(refused, Refused) and refused.code == "hold-expired"
    assert (refused.facts["reason"], refused.facts["seats"]) == ("seat-taken", ["A-2"])
    assert await world.counts("hall") == (3, 1, 0)
    await world.stock.release(taken.name, taken.fence, "shop:box")
    assert codes([await sell(world, hold, reacquire=True)]) == ["done"]
    assert await world.faults() == []


async def test_limits_and_sale_are_judged_anew_for_whoever_takes_again(world: World) -> None:
    sku = await world.fungible(total=10, buyer_max=2)
    hold = await world.hold(quantity=2, buyer="ada")
    await world.expire()
    more = await world.hold(quantity=1, buyer="ada")
    refused = await sell(world, hold, reacquire=True)
    assert isinstance(refused, Refused) and (refused.facts["reason"], refused.facts["taken"]) == ("buyer-limit", 1)
    await world.stock.release(more.name, more.fence, "shop:box")
    await world.pool.execute("UPDATE stock.skus SET state = 'halted' WHERE id = $1", sku.id)
    refused = await sell(world, hold, reacquire=True)
    assert isinstance(refused, Refused) and refused.facts == {
        "reacquired": False, "reason": "not-on-sale", "sku": "ticket",
    }  # fmt: skip
    await world.pool.execute("UPDATE stock.skus SET state = 'on_sale', room = 'hall-room' WHERE id = $1", sku.id)
    assert codes([await sell(world, hold, reacquire=True)]) == ["done"], "the room was asked when it was reserved"


async def test_only_expired_holds_are_taken_again_and_only_by_their_fence(world: World) -> None:
    await world.fungible(total=10)
    released, cancelled, stale, live = [await world.hold() for _ in range(4)]
    await world.stock.release(released.name, released.fence, "shop:box")
    await world.stock.cancel(sale_name(await sell(world, cancelled)), "shop:box", "fell through")
    await world.expire(stale)
    outcomes = [
        await sell(world, released, reacquire=True),
        await sell(world, cancelled, reacquire=True),
        await sell(world, Held(stale.name, stale.fence + 1, stale.document), reacquire=True),
        await sell(world, live, reacquire=True),
    ]
    assert codes(outcomes) == ["hold-released", "hold-released", "stale-fence", "done"]
    assert await world.faults() == []


async def test_units_beyond_the_total_are_taken_again_as_backorders(world: World) -> None:
    await world.fungible(total=4, shards=2, oversell=Oversell("bounded", 2))
    hold = await world.hold(quantity=3)
    assert "backordered" not in hold.document
    await world.expire()
    await world.hold(quantity=2)
    assert sale_of(await sell(world, hold, reacquire=True))["backordered"] == 1
    assert await backordered(world, hold) == (1, 1)
    assert await world.counts() == (1, 2, 3)
    assert await world.faults() == []


async def test_shops_that_sell_parts_take_again_and_cancel_at_once_leave_balanced_books(world: World) -> None:
    await world.fungible("a", total=30, shards=4, oversell=Oversell("bounded", 6))
    await world.fungible("b", total=20, shards=2)
    await world.seated(rows=2, seats=6)

    async def shop(number: int) -> None:
        chooser = random.Random(number)
        for _ in range(12):
            seats = tuple(f"{chooser.choice('AB')}-{seat}" for seat in chooser.sample(range(1, 7), 2))
            lines = [Line("a", chooser.randint(1, 4)), Line("b", chooser.randint(1, 3)), Line("hall", seats=seats)]
            outcome = await world.reserve(*chooser.sample(lines, chooser.randint(1, 3)))
            if not isinstance(outcome, Done):
                continue
            hold = held(outcome)
            if chooser.random() < 0.5:
                await world.expire(hold)
            asked = [msgspec.convert(line, Line) for line in orjson.loads(outcome.document)["lines"]]
            part = asked if chooser.random() < 0.5 else asked[:1]
            sold = await patiently(partial(sell, world, hold, *part, key="k", reacquire=True))
            if isinstance(sold, Done) and chooser.random() < 0.6:
                assert codes([await patiently(partial(world.stock.cancel, sale_name(sold), "shop:box", "r"))]) == [
                    "done"
                ]

    await asyncio.gather(*(shop(number) for number in range(8)))
    await world.expire()
    while (await world.stock.expire_due()).holds:
        pass
    assert await world.faults() == []
    verbs = await world.pool.fetch("SELECT DISTINCT verb FROM stock.ledger")
    assert {row["verb"] for row in verbs} >= {"reserve", "confirm", "release", "reacquire", "cancel"}


# Cancelling a sale


async def test_a_cancelled_sales_units_come_back_once(world: World) -> None:
    await world.fungible("a", total=4, shards=2, buyer_max=3)
    await world.seated(rows=1, seats=2)
    hold = held(await world.reserve(Line("a", 3), Line("hall", seats=("A-1",)), buyer="ada"))
    sale = sale_name(await sell(world, hold, Line("a", 2), Line("hall", seats=("A-1",)), key="k"))
    first = await world.stock.cancel(sale, "shop:box", 'the "buyer" called')
    again = await world.stock.cancel(sale, "shop:box", "once more")
    document = sale_of(first)
    assert (document["state"], document["reason"]) == ("cancelled", 'the "buyer" called')
    assert again == first
    assert [await world.counts(sku) for sku in ("a", "hall")] == [(4, 0, 0), (2, 0, 0)]
    assert await moves(world, hold) == [("reserve", 4, 0), ("release", -1, 0), ("confirm", -3, 3), ("cancel", 0, -3)]
    assert codes([await sell(world, hold)]) == ["hold-released"]
    assert codes([await world.stock.release(hold.name, hold.fence, "shop:box")]) == ["done"]
    assert await world.counts("a") == (4, 0, 0)
    assert codes([await world.reserve(Line("a", 3), buyer="ada")]) == ["done"], "the limit counts it no more"
    assert await world.faults() == []


async def test_a_foreign_or_unknown_sale_does_not_exist(world: World) -> None:
    sku = await world.fungible()
    sale = sale_name(await sell(world, await world.hold()))
    unknown = SaleName(new_sale_id(sku.id), sku.id)
    outcomes = [await world.stock.cancel(sale, "shop:other", "r"), await world.stock.cancel(unknown, "shop:box", "r")]
    assert codes(outcomes) == ["not-found", "not-found"]
    assert (await world.counts())[2] == 1
