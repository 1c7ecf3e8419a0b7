"""The shop's JSON calls on the real stock: one key one hold, one payment one sale, and no money without a ticket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from chassis.database import Pool
from chassis.settings import Settings
from tests.shop_floor import Answer, Floor, open_floor
from tests.stock_counter import problem


@pytest.fixture
async def floor(settings: Settings, pool: Pool, tmp_path: Path) -> AsyncIterator[Floor]:
    async with open_floor(settings, pool, tmp_path) as floor:
        await floor.counter.world.fungible("ticket", total=3, shards=2)
        yield floor


async def test_a_hold_is_paid_and_becomes_a_sale(floor: Floor) -> None:
    hold = await floor.hold(quantity=2)
    paid = await floor.post("/api/pay", hold)
    assert (paid.status_code, paid.json()["outcome"]) == (200, "paid")
    assert paid.json()["sale"]["hold"] == hold["hold"]
    assert await floor.counter.world.counts() == (1, 0, 2)
    assert await floor.inquire(hold["hold"]) == "paid"


async def test_a_double_click_is_one_hold_and_one_sale(floor: Floor) -> None:
    first, second = await asyncio.gather(floor.hold(), floor.hold())
    assert first == second
    sales = await asyncio.gather(*(floor.post("/api/pay", first, key="pay-1") for _ in range(4)))
    assert len({sale.json()["sale"]["id"] for sale in sales}) == 1
    assert await floor.counter.world.counts() == (2, 0, 1)


async def test_two_buyers_who_choose_the_same_key_get_two_holds(floor: Floor) -> None:
    assert (await floor.hold("ann"))["hold"] != (await floor.hold("bob"))["hold"]


async def test_a_repeat_is_marked_as_replayed(floor: Floor) -> None:
    await floor.hold()
    again = await floor.post("/api/holds", {"sku": "ticket", "quantity": 1})
    assert again.headers["Idempotent-Replayed"] == "true"


async def test_a_declined_card_gives_the_units_back(floor: Floor) -> None:
    hold = await floor.hold()
    assert (await floor.post("/api/pay", {**hold, "card": "declined"})).json() == {"outcome": "declined"}
    assert await floor.counter.world.counts() == (3, 0, 0)
    assert await floor.inquire(hold["hold"]) == "unpaid"
    assert (await floor.post("/api/pay", hold, key="pay-2")).json() == {"outcome": "declined"}


async def test_paying_after_the_deadline_charges_nothing(floor: Floor) -> None:
    hold = await floor.hold()
    await floor.counter.world.expire()
    assert problem(await floor.post("/api/pay", hold)) == (409, "hold-expired")
    assert await floor.inquire(hold["hold"]) == "unpaid"


async def test_a_payment_cancelled_by_the_inquiry_sells_nothing(floor: Floor) -> None:
    hold = await floor.hold()
    assert await floor.inquire(hold["hold"]) == "unknown"
    stalled = asyncio.create_task(floor.post("/api/pay", {**hold, "card": "slow", "delay": 100}))
    while await floor.inquire(hold["hold"]) != "pending":
        await asyncio.sleep(0)
    assert await floor.inquire(hold["hold"], "DELETE") == "unpaid"
    stalled.cancel()
    assert (await floor.post("/api/pay", hold)).json() == {"outcome": "cancelled"}
    assert (await floor.counter.world.counts())[2] == 0


async def test_a_paid_payment_cannot_be_cancelled(floor: Floor) -> None:
    hold = await floor.hold()
    await floor.post("/api/pay", hold)
    assert await floor.inquire(hold["hold"], "DELETE") == "paid"


@pytest.mark.parametrize("call", ["holds", "paying", "confirm"])
async def test_an_answer_lost_after_the_stock_acted_is_asked_for_again(floor: Floor, call: str) -> None:
    lost: list[str] = []

    async def lose_one(request: httpx.Request, pass_on: Answer) -> httpx.Response:
        answer = await pass_on(request)
        if request.url.path.endswith(f"/{call}") and not lost:
            lost.append(call)
            raise httpx.ReadError("the answer was lost")
        return answer

    floor.wire.cut = lose_one
    paid = await floor.post("/api/pay", await floor.hold())
    assert lost and paid.json()["outcome"] == "paid"
    assert await floor.counter.world.counts() == (2, 0, 1)


async def test_a_shop_that_died_before_confirming_goes_on_where_it_stopped(
    floor: Floor, settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    hold = await floor.hold()

    async def die_at_confirm(request: httpx.Request, pass_on: Answer) -> httpx.Response:
        if request.url.path.endswith("/confirm"):
            raise asyncio.CancelledError
        return await pass_on(request)

    floor.wire.cut = die_at_confirm
    with pytest.raises(asyncio.CancelledError):
        await floor.post("/api/pay", hold)
    async with open_floor(settings, pool, tmp_path) as reborn:
        assert await reborn.inquire(hold["hold"]) == "paid"
    floor.wire.cut = None
    assert (await floor.post("/api/pay", hold)).json()["outcome"] == "paid"
    assert await floor.counter.world.counts() == (2, 0, 1)


async def test_a_refused_confirmation_gives_the_money_back(floor: Floor) -> None:
    """A person resolved the hold as unpaid while the money was on its way."""
    hold = await floor.hold()

    async def resolve_first(request: httpx.Request, pass_on: Answer) -> httpx.Response:
        if request.url.path.endswith("/confirm"):
            body = {"outcome": "unpaid", "reason": "by hand"}
            await floor.counter.api.post(
                f"/admin/holds/{hold['hold']}/resolve", json=body, headers=floor.counter.operator
            )
        return await pass_on(request)

    floor.wire.cut = resolve_first
    assert (await floor.post("/api/pay", hold)).json() == {"outcome": "refunded"}
    assert await floor.inquire(hold["hold"]) == "unpaid"
    assert await floor.counter.world.counts() == (3, 0, 0)


async def test_releasing_twice_is_one_release_and_what_is_being_paid_stays(floor: Floor) -> None:
    hold = await floor.hold()
    assert [(await floor.post("/api/release", hold)).status_code for _ in range(2)] == [200, 200]
    other = await floor.hold(key="key-2")
    await floor.post("/api/pay", other)
    assert problem(await floor.post("/api/release", other)) == (409, "hold-paying")


async def test_a_foreign_hold_is_not_found(floor: Floor) -> None:
    hold = await floor.hold("ann")
    assert problem(await floor.post("/api/pay", hold, "bob")) == (404, "not-found")
    assert problem(await floor.post("/api/release", hold, "bob")) == (404, "not-found")
    read = await floor.web.get(f"/api/holds/{hold['hold']}", headers=floor.buyer("bob"))
    assert problem(read) == (404, "not-found")
    assert (await floor.web.get(f"/api/holds/{hold['hold']}", headers=floor.buyer("ann"))).json()["state"] == "held"


async def test_refusals_of_the_stock_are_handed_on(floor: Floor) -> None:
    assert problem(await floor.post("/api/holds", {"sku": "ticket", "quantity": 4})) == (409, "insufficient-stock")
    await floor.hold(quantity=3)
    refused = await floor.post("/api/holds", {"sku": "ticket", "quantity": 1}, key="key-2")
    assert problem(refused) == (409, "sold-out")
    assert refused.json()["held"] == 3
    assert problem(await floor.post("/api/holds", {"sku": "ticket", "quantity": 2})) == (422, "key-reused")
    assert problem(await floor.post("/api/holds", {"sku": "nothing", "quantity": 1}, key="key-3"))[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {"sku": "ticket", "quantity": 0},
        {"sku": "ticket", "quantity": -1},
        {"sku": "ticket", "quantity": 1.5},
        {"sku": "ticket", "quantity": 2**70},
        {"sku": "ticket", "quantity": "1"},
        {"sku": "ticket"},
        {"sku": "ticket", "quantity": 1, "seats": ["A-1"]},
        {"sku": "ticket", "seats": []},
        {"sku": "ticket", "quantity": 1, "price": 0},
        {"quantity": 1},
        [],
    ],
)
async def test_a_reserve_that_is_not_valid_is_refused_in_words(floor: Floor, body: object) -> None:
    assert problem(await floor.post("/api/holds", body)) == (422, "invalid")


async def test_other_bad_input_is_a_problem_and_never_a_500(floor: Floor) -> None:
    buyer = floor.buyer()
    keyed = buyer | {"Idempotency-Key": "k", "Content-Type": "application/json"}
    web = floor.web
    answers = [
        problem(await web.post("/api/holds", json={}, headers=buyer)),
        problem(await web.post("/api/holds", json={}, headers=buyer | {"Idempotency-Key": "k" * 200})),
        problem(await web.post("/api/holds", content=b"{", headers=keyed)),
        problem(await web.post("/api/holds", content=b"x" * 20_000, headers=keyed)),
        problem(await web.post("/api/holds", content=b"{}", headers=buyer | {"Idempotency-Key": "k"})),
        problem(await web.post("/api/holds", json={}, headers={"Idempotency-Key": "k"})),
        problem(await web.post("/api/pay", json={"hold": "x", "fence": 1}, headers=keyed)),
        problem(await web.get("/api/holds/not-a-uuid", headers=buyer)),
        problem(await web.get("/api/pay", headers=buyer)),
    ]
    assert answers == [
        (400, "key-missing"), (400, "malformed"), (400, "malformed"), (413, "too-large"), (415, "unsupported-media-type"),
        (401, "pass-required"), (422, "invalid"), (404, "not-found"), (405, "method-not-allowed"),
    ]  # fmt: skip


@pytest.mark.parametrize("shown", ["", "Bearer ", "Bearer wrong", "Basic an inquiry key of the tests", "Bearer \xe9"])
async def test_the_inquiry_wants_its_key(floor: Floor, shown: str) -> None:
    hold = await floor.hold()
    for method in ("GET", "DELETE"):
        headers = {b"Authorization": shown.encode("latin-1")}
        answer = await floor.web.request(method, f"/payments/{hold['hold']}", headers=headers)
        assert problem(answer) == (401, "unauthenticated")
    assert await floor.inquire(hold["hold"]) == "unknown"
