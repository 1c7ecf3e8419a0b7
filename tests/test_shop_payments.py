"""The shop's books keep their promises across crashes and races: one payment a hold, and an ended one stays ended."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chassis.problems import Problem
from fairgate.shop.payments import Payments

HOLD = "019340a0-0000-7000-8000-000000000001"


@pytest.fixture
async def payments(tmp_path: Path) -> AsyncIterator[Payments]:
    books = Payments(tmp_path / "payments.sqlite")
    await books.open()
    yield books
    await books.close()


async def test_a_payment_leaves_pending_once(payments: Payments) -> None:
    await payments.begin(HOLD, "ann", "key", "ok")
    ends = await asyncio.gather(
        payments.end(HOLD, "paid"), payments.end(HOLD, "declined"), payments.cancel(HOLD), payments.end(HOLD, "paid")
    )
    assert set(ends) == {ends[0]}


async def test_a_cancelled_payment_never_becomes_paid(payments: Payments, tmp_path: Path) -> None:
    await payments.begin(HOLD, "ann", "key", "slow")
    assert await payments.cancel(HOLD) == "cancelled"
    assert await payments.end(HOLD, "paid") == "cancelled"
    assert (await payments.begin(HOLD, "ann", "another", "ok")).state == "cancelled"
    with sqlite3.connect(tmp_path / "payments.sqlite") as by_hand, pytest.raises(sqlite3.IntegrityError):
        by_hand.execute("UPDATE payments SET state = 'paid' WHERE hold = ?", (HOLD,))
    by_hand.close()


async def test_cancelling_before_anybody_began_to_pay_is_final_too(payments: Payments) -> None:
    assert await payments.cancel(HOLD) == "cancelled"
    assert (await payments.begin(HOLD, "ann", "key", "ok")).state == "cancelled"


async def test_cancelling_a_paid_payment_answers_that_it_is_paid(payments: Payments) -> None:
    await payments.begin(HOLD, "ann", "key", "ok")
    await payments.end(HOLD, "paid")
    assert await payments.cancel(HOLD) == "paid"


async def test_beginning_twice_is_one_payment_with_the_first_card(payments: Payments) -> None:
    await payments.begin(HOLD, "ann", "key", "declined")
    assert (await payments.begin(HOLD, "ann", "key", "ok")).card == "declined"


async def test_one_key_pays_for_one_hold(payments: Payments) -> None:
    await payments.begin(HOLD, "ann", "key", "ok")
    with pytest.raises(Problem) as refused:
        await payments.begin(HOLD.replace("1", "2"), "ann", "key", "ok")
    assert refused.value.code == "key-reused"
    assert (await payments.begin(HOLD.replace("1", "3"), "bob", "key", "ok")).state == "pending"


async def test_what_was_answered_is_there_for_the_next_process(payments: Payments, tmp_path: Path) -> None:
    await payments.keep_basket(HOLD, "ann", 7)
    await payments.begin(HOLD, "ann", "key", "ok")
    await payments.end(HOLD, "paid")
    other = Payments(tmp_path / "payments.sqlite")  # the first still has the file open, as after a kill -9
    await other.open()
    found = await other.find(HOLD)
    assert found is not None and found.state == "paid"
    assert await other.find_fence(HOLD, "ann") == 7
    assert await other.find_fence(HOLD, "bob") is None
    await other.close()


async def test_a_later_fence_replaces_an_earlier_one_and_never_the_other_way_round(payments: Payments) -> None:
    for fence in (3, 9, 4):
        await payments.keep_basket(HOLD, "ann", fence)
    assert await payments.find_fence(HOLD, "ann") == 9
    assert await payments.list_baskets("ann") == [HOLD]


async def test_a_refund_happens_to_paid_payments_only(payments: Payments) -> None:
    await payments.begin(HOLD, "ann", "key", "ok")
    await payments.refund(HOLD)
    await payments.end(HOLD, "paid")
    await payments.refund(HOLD)
    found = await payments.find(HOLD)
    assert found is not None and found.state == "refunded"
