"""The stock's promises at the store: never twice, never lost, never by a late or repeated call."""

import asyncio
import random
import secrets

import asyncpg
import orjson
import pytest

from chassis.database import Pool
from counters.rules import Done, Line, Refused
from tests.stock_world import World, codes, held, patiently


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def test_a_hold_walks_to_a_sale(world: World) -> None:
    await world.fungible(total=10)
    hold = await world.hold(quantity=3)
    assert hold.document["lines"] == [{"sku": "ticket", "quantity": 3}]
    assert await world.counts() == (7, 3, 0)
    paying = await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    assert isinstance(paying, Done) and orjson.loads(paying.document)["state"] == "paying"
    sale = await world.confirm(hold)
    assert isinstance(sale, Done) and orjson.loads(sale.document)["state"] == "sold"
    assert await world.counts() == (7, 0, 3)
    assert await world.faults() == []


async def test_two_thousand_racers_for_five_hundred_units_sell_exactly_five_hundred(world: World) -> None:
    await world.fungible(total=500, shards=16)
    random.seed(1)

    async def racer(number: int) -> str:
        key = f"racer-{number}"
        attempts = [patiently(lambda: world.reserve(Line("ticket", 1), key=key)) for _ in range(1 + number % 2)]
        outcomes = await asyncio.gather(*attempts)
        granted = [outcome for outcome in outcomes if isinstance(outcome, Done)]
        assert {outcome.code for outcome in outcomes if isinstance(outcome, Refused)} <= {"sold-out"}
        if not granted:
            return "refused"
        hold = held(granted[0])
        assert [outcome.replayed for outcome in granted].count(False) == 1
        assert len({outcome.document for outcome in granted}) == 1
        if number % 5 == 0:
            await patiently(lambda: world.stock.release(hold.name, hold.fence, "shop:box"))
            return "released"
        assert codes([await patiently(lambda: world.confirm(hold))]) == ["done"]
        return "sold"

    ends = await asyncio.gather(*(racer(number) for number in range(2_000)))
    available, still_held, sold = await world.counts()
    assert (available + sold, still_held) == (500, 0)
    assert sold == ends.count("sold")
    assert await world.faults() == []
    # What the early walkers gave back is still to be had, to the last unit and not one more.
    assert codes([await world.reserve(Line("ticket", available))] if available else []) in ([], ["done"])
    assert codes([await world.reserve(Line("ticket", 1))]) == ["sold-out"]


async def test_the_last_unit_is_granted_once(world: World) -> None:
    await world.fungible(total=1, shards=8)
    words = codes(await asyncio.gather(*(world.reserve(Line("ticket", 1)) for _ in range(100))))
    assert sorted(words) == ["done"] + ["sold-out"] * 99
    assert await world.faults() == []


async def test_drained_fragments_are_never_a_false_sold_out(world: World) -> None:
    await world.fungible(total=60, shards=16)
    left = 60
    chooser = random.Random(7)
    while left:
        quantity = min(left, chooser.randint(1, 9))
        assert codes([await world.reserve(Line("ticket", quantity))]) == ["done"], f"{quantity} of {left} refused"
        left -= quantity
    assert codes([await world.reserve(Line("ticket", 1))]) == ["sold-out"]
    assert await world.faults() == []


async def test_a_request_for_more_than_is_left_is_told_how_many_there_are(world: World) -> None:
    await world.fungible(total=5, shards=2)
    await world.hold(quantity=3)
    refused = await world.reserve(Line("ticket", 3))
    assert isinstance(refused, Refused) and refused.code == "insufficient-stock"
    assert (refused.facts["available"], refused.facts["held"]) == (2, 3)
    assert str(refused.facts["next_release_at"]).endswith("Z")


async def test_a_repeated_key_has_one_effect_and_one_answer(world: World) -> None:
    await world.fungible(total=100, shards=16)
    outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 2), key="again") for _ in range(40)))
    assert sorted(codes(outcomes)) == ["done"] + ["replayed"] * 39
    assert len({outcome.document for outcome in outcomes if isinstance(outcome, Done)}) == 1
    assert await world.counts() == (98, 2, 0)


async def test_a_retry_after_sell_out_or_expiry_still_finds_the_hold(world: World) -> None:
    await world.fungible(total=1)
    first = await world.reserve(Line("ticket", 1), key="mine")
    await world.expire()
    await world.stock.expire_due()
    await world.hold()
    again = await world.reserve(Line("ticket", 1), key="mine")
    assert isinstance(first, Done) and again == Done(first.document, replayed=True)


async def test_another_body_under_the_same_key_is_refused_and_changes_nothing(world: World) -> None:
    await world.fungible(total=10)
    await world.reserve(Line("ticket", 1), key="k")
    assert codes([await world.reserve(Line("ticket", 2), key="k")]) == ["key-reused"]
    assert await world.counts() == (9, 1, 0)


async def test_one_key_racing_for_two_skus_has_one_effect(world: World) -> None:
    await world.fungible("a", total=50, shards=4)
    await world.fungible("b", total=50, shards=4)
    for number in range(20):
        outcomes = await asyncio.gather(
            *(world.reserve(Line(sku, 1), key=f"k{number}") for sku in ("a", "b") for _ in range(3))
        )
        assert codes(outcomes).count("done") == 1
        assert codes(outcomes).count("key-reused") == 3
    assert sum([(await world.counts("a"))[1], (await world.counts("b"))[1]]) == 20
    assert await world.faults() == []


async def test_a_refusal_binds_nothing(world: World) -> None:
    await world.fungible(total=1)
    hold = await world.hold()
    assert codes([await world.reserve(Line("ticket", 1), key="k")]) == ["sold-out"]
    await world.stock.release(hold.name, hold.fence, "shop:box")
    assert codes([await world.reserve(Line("ticket", 1), key="k")]) == ["done"]


async def test_a_hold_past_its_deadline_is_never_confirmed_swept_or_not(world: World) -> None:
    await world.fungible(total=2)
    unswept, swept = await world.hold(), await world.hold()
    await world.expire()
    assert codes([await world.confirm(unswept)]) == ["hold-expired"]
    assert codes([await world.stock.start_payment(unswept.name, unswept.fence, "shop:box", None)]) == ["hold-expired"]
    assert codes([await world.stock.extend(unswept.name, unswept.fence, "shop:box", None)]) == ["hold-expired"]
    assert (await world.stock.expire_due()).units == 2
    assert codes([await world.confirm(swept)]) == ["hold-expired"]
    assert await world.counts() == (2, 0, 0)
    assert await world.faults() == []


async def test_an_expired_unswept_hold_is_sellable(world: World) -> None:
    await world.fungible(total=3, shards=2)
    await world.hold(quantity=3)
    await world.expire()
    assert await world.counts() == (3, 0, 0)
    assert codes([await world.reserve(Line("ticket", 3))]) == ["done"]
    assert await world.faults() == []


async def test_many_due_holds_are_reclaimed_before_anybody_hears_sold_out(world: World) -> None:
    await world.fungible(total=700, shards=8)
    await asyncio.gather(*(world.hold() for _ in range(700)))
    await world.expire()
    words = codes(await asyncio.gather(*(world.reserve(Line("ticket", 7)) for _ in range(100))))
    assert words == ["done"] * 100
    assert await world.counts() == (0, 700, 0)
    assert await world.faults() == []


async def test_a_stale_fence_is_refused_by_every_verb(world: World) -> None:
    await world.fungible()
    hold = await world.hold()
    for fence in (hold.fence - 1 or hold.fence + 2, hold.fence + 1):
        outcomes = [
            await world.confirm(hold, fence=fence),
            await world.stock.start_payment(hold.name, fence, "shop:box", None),
            await world.stock.release(hold.name, fence, "shop:box"),
            await world.stock.extend(hold.name, fence, "shop:box", None),
        ]
        assert codes(outcomes) == ["stale-fence"] * 4
    assert await world.counts() == (9, 1, 0)


async def test_fences_of_one_row_only_grow(world: World) -> None:
    await world.fungible(total=50, shards=1)
    fences = [(await world.hold()).fence for _ in range(5)]
    await world.expire()
    fences += [(await world.hold(quantity=46)).fence]
    assert fences == sorted(set(fences))


async def test_releasing_twice_is_one_release(world: World) -> None:
    await world.fungible(total=10)
    hold = await world.hold(quantity=4)
    outcomes = await asyncio.gather(*(world.stock.release(hold.name, hold.fence, "shop:box") for _ in range(10)))
    assert codes(outcomes) == ["done"] * 10
    assert await world.counts() == (10, 0, 0)
    assert (
        await world.pool.fetchval("SELECT count(DISTINCT operation_id) FROM stock.ledger WHERE verb = 'release'") == 1
    )


async def test_confirm_and_release_racing_end_in_one_of_them(world: World) -> None:
    await world.fungible(total=50, shards=4)
    for _ in range(25):
        hold = await world.hold()
        sold, released = await asyncio.gather(
            world.confirm(hold), world.stock.release(hold.name, hold.fence, "shop:box")
        )
        assert (codes([sold]), codes([released])) in ((["done"], ["hold-sold"]), (["hold-released"], ["done"]))
    assert await world.faults() == []


async def test_confirming_what_is_sold_answers_the_same_sale_whatever_the_key(world: World) -> None:
    await world.fungible()
    hold = await world.hold()
    outcomes = await asyncio.gather(*(world.confirm(hold, key=f"k{number % 3}") for number in range(9)))
    assert codes(outcomes).count("done") == 1
    assert len({orjson.loads(outcome.document)["id"] for outcome in outcomes if isinstance(outcome, Done)}) == 1
    assert await world.counts() == (9, 0, 1)


async def test_a_paying_hold_is_never_reclaimed_and_never_counts_as_available(world: World) -> None:
    await world.fungible(total=1)
    hold = await world.hold()
    await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    await world.pool.execute("UPDATE stock.holds SET expires_at = 'epoch', paying_until = 'epoch'")
    assert (await world.stock.expire_due()).holds == 0
    assert codes([await world.reserve(Line("ticket", 1))]) == ["sold-out"]
    assert codes([await world.confirm(hold)]) == ["done"]


async def test_repeating_paying_never_moves_the_deadline_past_the_first_starts(world: World) -> None:
    await world.fungible(payment_seconds_max=60)
    hold = await world.hold()
    first = held(await world.stock.start_payment(hold.name, hold.fence, "shop:box", None))
    again = held(await world.stock.start_payment(hold.name, hold.fence, "shop:box", None))
    assert again.document["expires_at"] == first.document["expires_at"]


async def test_extensions_are_counted_and_bounded(world: World) -> None:
    await world.fungible(hold_seconds=60, hold_seconds_max=100, extensions_max=2)
    hold = await world.hold()
    outcomes = [await world.stock.extend(hold.name, hold.fence, "shop:box", 600) for _ in range(3)]
    assert codes(outcomes) == ["done", "extension-limit", "extension-limit"]
    assert codes([await world.stock.extend(hold.name, hold.fence, "shop:box", 1)]) == ["extension-limit"]


async def test_a_foreign_hold_does_not_exist(world: World) -> None:
    await world.fungible()
    hold = await world.hold()
    assert codes([await world.stock.release(hold.name, hold.fence, "shop:other")]) == ["not-found"]
    assert codes([await world.stock.hold(hold.name, "onsale:somebody")]) == ["not-found"]


async def test_a_cart_is_all_or_nothing(world: World) -> None:
    await world.fungible("a", total=5)
    await world.fungible("b", total=1)
    await world.seated(rows=1, seats=3)
    cart = (Line("a", 2), Line("hall", seats=("A-1", "A-2")), Line("b", 1), Line("a", 1))
    hold = held(await world.reserve(*cart))
    assert await world.counts("a") == (2, 3, 0)
    refused = await world.reserve(Line("a", 1), Line("b", 1))
    assert codes([refused]) == ["sold-out"]
    assert await world.counts("a") == (2, 3, 0)
    assert codes([await world.confirm(hold)]) == ["done"]
    assert [await world.counts(sku) for sku in ("a", "b", "hall")] == [(2, 0, 3), (0, 0, 1), (1, 0, 2)]
    assert await world.faults() == []


async def test_a_carts_lines_of_one_sku_are_summed_before_they_are_checked(world: World) -> None:
    await world.fungible(total=5)
    refused = await world.reserve(*(Line("ticket", 1) for _ in range(6)))
    assert codes([refused]) == ["insufficient-stock"]


async def test_an_expired_cart_comes_back_whole(world: World) -> None:
    await world.fungible("a", total=1)
    await world.seated(rows=1, seats=1)
    held(await world.reserve(Line("a", 1), Line("hall", seats=("A-1",))))
    await world.expire()
    assert codes([await world.reserve(Line("hall", seats=("A-1",)))]) == ["done"]
    assert await world.counts("a") == (1, 0, 0)
    assert await world.faults() == []


async def test_a_taken_or_unknown_seat_is_named(world: World) -> None:
    await world.seated()
    held(await world.reserve(Line("hall", seats=("A-1",))))
    taken = await world.reserve(Line("hall", seats=("A-1", "A-2")))
    assert isinstance(taken, Refused) and (taken.code, taken.facts["seats"]) == ("seat-taken", ["A-1"])
    unknown = await world.reserve(Line("hall", seats=("A-2", "Z-9")))
    assert isinstance(unknown, Refused) and (unknown.code, unknown.facts["seats"]) == ("no-such-seat", ["Z-9"])
    assert await world.counts("hall") == (9, 1, 0)


async def test_the_ledger_cannot_be_changed(world: World) -> None:
    await world.fungible()
    for statement in ("UPDATE stock.ledger SET held_delta = 1", "DELETE FROM stock.ledger", "TRUNCATE stock.ledger"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
            await world.pool.execute(statement)


async def test_the_database_itself_refuses_to_oversell(world: World) -> None:
    await world.fungible(total=4, shards=1)
    with pytest.raises(asyncpg.CheckViolationError, match="sub_counter_never_oversold"):
        await world.pool.execute("UPDATE stock.sub_counters SET held = 5")
    await world.hold()
    with pytest.raises(asyncpg.UniqueViolationError, match="a_key_has_one_effect"):
        await world.pool.execute(
            "INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id)"
            " SELECT sku_id + 1, slot, fingerprint, answer, operation_id, hold_id FROM stock.idempotency"
        )


async def test_a_seat_cannot_belong_to_nobody_and_be_held(world: World) -> None:
    await world.seated()
    with pytest.raises(asyncpg.CheckViolationError, match="seat_is_taken_by_one_hold"):
        await world.pool.execute("UPDATE stock.seats SET state = 'held'")


async def test_a_store_that_is_away_is_busy_and_never_sold_out(world: World, database_url: str) -> None:
    await world.fungible(total=5)
    name = await world.pool.fetchval("SELECT current_database()")
    key = secrets.token_hex(8)
    administrator = await asyncpg.connect(database_url.replace(f"@/{name}?", "@/postgres?"))
    try:
        holds = [asyncio.create_task(world.reserve(Line("ticket", 1), key=key)) for _ in range(5)]
        await administrator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        outcomes = await asyncio.gather(*holds)
    finally:
        await administrator.close()
    assert sorted(codes(outcomes)) == ["done", *["replayed"] * 4]
    assert await world.counts() == (4, 1, 0)
