"""The reconciler's promises: what lapsed comes back, late payments end as they ended, drift never holds up the rest."""

import contextlib
from collections.abc import AsyncIterator
from uuid import UUID

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chassis.database import Pool
from counters.history import History
from counters.rules import Done
from reconciler import jobs
from reconciler.jobs import Number, Rebalance, RepairDrift, Report, SettlePayments, Sweep, all_jobs
from reconciler.payments import HttpPaymentInquiry, NoPaymentInquiry, PaymentState
from tests.stock_world import Held, World, codes

KEY = "the inquiry key of this test"


class Provider:
    """A payment provider over HTTP: what it says of each hold, and what becomes of one that is cancelled."""

    def __init__(self) -> None:
        self.says: dict[UUID, PaymentState | str] = {}
        self.after_cancel: PaymentState = "unpaid"
        self.cancelled: list[UUID] = []
        self.asked: list[UUID] = []

    async def answer(self, request: Request) -> Response:
        hold = UUID(request.path_params["hold"])
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Response(status_code=401)
        if request.method == "DELETE":
            self.cancelled.append(hold)
            self.says[hold] = self.after_cancel
        else:
            self.asked.append(hold)
        said = self.says.get(hold, "unknown")
        return Response(b"<html>") if said == "nonsense" else JSONResponse({"state": said})

    @contextlib.asynccontextmanager
    async def inquiry(self, key: str = KEY) -> AsyncIterator[HttpPaymentInquiry]:
        app = Starlette(routes=[Route("/payments/{hold}", self.answer, methods=["GET", "DELETE"])])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            yield HttpPaymentInquiry("http://provider/payments/", key, client)


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def overdue(world: World) -> Held:
    """A hold whose payment has started and is past its deadline."""
    hold = await world.hold()
    await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    await world.pool.execute("UPDATE stock.holds SET paying_until = 'epoch' WHERE id = $1", hold.name.id)
    return hold


async def test_the_sweep_brings_back_everything_that_is_due_in_one_pass(world: World) -> None:
    await world.fungible(total=50)
    for _ in range(5):
        await world.hold(quantity=4)
    live = await world.hold(quantity=3)
    await world.pool.execute("UPDATE stock.holds SET expires_at = 'epoch' WHERE id <> $1", live.name.id)
    assert (await Sweep(world.stock).run_once()).done == {"holds": 5, "units": 20}
    assert (await Sweep(world.stock).run_once()).idle
    assert await world.counts() == (47, 3, 0)
    assert await world.faults() == []


async def test_one_pass_sweeps_past_what_it_may_not_end_and_says_what_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "SWEEP_BATCH", 3)
    await world.fungible("torn", total=1, shards=1)
    await world.fungible(total=50)
    await world.hold("torn")
    await world.pool.execute("UPDATE stock.sub_counters SET held = 0 WHERE held = 1")
    first, *_ = [await world.hold() for _ in range(9)]
    await world.expire()
    async with world.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM stock.holds WHERE id = $1 FOR NO KEY UPDATE", first.name.id)
        report = await Sweep(world.stock).run_once()
    assert report.done == {"holds": 8, "units": 8}
    locked, torn = report.attention
    assert locked.startswith("1 due holds are locked") and torn.startswith("1 due holds cannot end before their books")
    await RepairDrift(world.stock).run_once()
    assert await Sweep(world.stock).run_once() == Report("sweep", {"holds": 2, "units": 2})
    assert await world.faults() == []


async def test_one_pass_settles_every_late_payment_and_asks_about_none_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "PAYMENTS_BATCH", 3)
    await world.fungible(total=50)
    await world.fungible("torn", total=1, shards=1)
    provider = Provider()
    torn = await world.hold("torn")
    await world.stock.start_payment(torn.name, torn.fence, "shop:box", None)
    await world.pool.execute("UPDATE stock.holds SET paying_until = '-infinity' WHERE id = $1", torn.name.id)
    await world.pool.execute("UPDATE stock.sub_counters SET held = 0 WHERE sku_id = $1", torn.name.sku_id)
    unknown = [await overdue(world) for _ in range(4)]
    async with provider.inquiry() as inquiry:
        await SettlePayments(world.stock, inquiry).run_once()
        unpaid = [await overdue(world) for _ in range(7)]
        provider.says = {hold.name.id: "unpaid" for hold in [torn, *unpaid]}
        provider.asked.clear()
        report = await SettlePayments(world.stock, inquiry).run_once()
    assert report.done == {"paid": 0, "unpaid": 7, "unknown": 4}
    assert len(report.attention) == 5
    assert sorted(provider.asked) == sorted(hold.name.id for hold in [torn, *unknown, *unpaid])
    assert await world.counts() == (46, 4, 0)


async def test_late_payments_end_as_the_provider_says(world: World) -> None:
    await world.fungible()
    provider = Provider()
    paid, unpaid, pending, raced = [await overdue(world) for _ in range(4)]
    provider.says = {
        paid.name.id: "paid",
        unpaid.name.id: "unpaid",
        pending.name.id: "pending",
        raced.name.id: "pending",
    }
    async with provider.inquiry() as inquiry:
        report = await SettlePayments(world.stock, inquiry).run_once()
    assert report.done == {"paid": 1, "unpaid": 3, "unknown": 0}
    assert set(provider.cancelled) == {pending.name.id, raced.name.id}
    assert await world.counts() == (9, 0, 1)
    assert codes([await world.confirm(paid)]) == ["replayed"]
    assert codes([await world.confirm(unpaid)]) == ["hold-released"]
    assert await world.faults() == []


async def test_a_payment_that_beats_its_cancellation_is_a_sale(world: World) -> None:
    await world.fungible()
    provider = Provider()
    hold = await overdue(world)
    provider.says, provider.after_cancel = {hold.name.id: "pending"}, "paid"
    async with provider.inquiry() as inquiry:
        await SettlePayments(world.stock, inquiry).run_once()
    assert await world.counts() == (9, 0, 1)


@pytest.mark.parametrize("said", ["unknown", "nonsense", "wrong key", "pending for ever", "nobody to ask"])
async def test_what_nobody_knows_waits_for_a_person_and_moves_nothing(world: World, said: str) -> None:
    await world.fungible()
    provider = Provider()
    hold = await overdue(world)
    provider.says[hold.name.id] = "pending" if said == "pending for ever" else said
    provider.after_cancel = "pending"
    async with provider.inquiry("another key" if said == "wrong key" else KEY) as http:
        inquiry = NoPaymentInquiry() if said == "nobody to ask" else http
        report = await SettlePayments(world.stock, inquiry).run_once()
    assert report.done == {"paid": 0, "unpaid": 0, "unknown": 1}
    assert f"fairgate hold resolve {hold.name.id}" in report.attention[0]
    (stuck,) = await world.stock.paying_holds(overdue_only=True)
    assert stuck.stuck_since is not None
    assert await world.counts() == (9, 1, 0)
    resolved = await world.stock.resolve(hold.name, "paid", overdue_only=False, actor="operator:ada", reason="bank")
    assert isinstance(resolved, Done)
    assert await world.counts() == (9, 0, 1)


async def test_a_payment_within_its_time_is_not_asked_about(world: World) -> None:
    await world.fungible()
    hold = await world.hold()
    await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    async with Provider().inquiry() as inquiry:
        assert (await SettlePayments(world.stock, inquiry).run_once()).idle


async def test_stuck_payments_never_keep_a_fresh_one_waiting(world: World) -> None:
    await world.fungible()
    stuck, fresh = await overdue(world), await overdue(world)
    await SettlePayments(world.stock, NoPaymentInquiry()).run_once()
    await world.pool.execute("UPDATE stock.holds SET stuck_since = NULL WHERE id = $1", fresh.name.id)
    first, second = await world.stock.paying_holds(overdue_only=True)
    assert (first.id, second.id) == (fresh.name.id, stuck.name.id)


async def test_one_drifted_hold_does_not_hold_up_the_payments_behind_it(world: World) -> None:
    await world.fungible("torn", total=1, shards=1)
    await world.fungible()
    provider = Provider()
    torn = await world.hold("torn")
    await world.stock.start_payment(torn.name, torn.fence, "shop:box", None)
    await world.pool.execute("UPDATE stock.holds SET paying_until = '-infinity' WHERE id = $1", torn.name.id)
    await world.pool.execute("UPDATE stock.sub_counters SET held = 0 WHERE held = 1")
    sound = await overdue(world)
    provider.says = {torn.name.id: "unpaid", sound.name.id: "paid"}
    async with provider.inquiry() as inquiry:
        report = await SettlePayments(world.stock, inquiry).run_once()
        assert report.done == {"paid": 1, "unpaid": 0, "unknown": 0}
        assert str(torn.name.id) in report.attention[0]
        # One whole pass mends the books first, and then the torn hold ends too.
        reports = [await job.run_once() for job in all_jobs(world.stock, History(world.pool), inquiry)]
    assert [report.attention for report in reports] == [()] * 5
    assert await world.counts("torn") == (1, 0, 0)
    assert await world.faults() == []


async def test_rebalance_comes_to_rest(world: World) -> None:
    await world.fungible(total=40, shards=8)
    for _ in range(3):
        await world.hold(quantity=9)
    assert (await Rebalance(world.stock).run_once()).done["units"] > 0
    assert (await Rebalance(world.stock).run_once()).idle
    assert await world.faults() == []


async def test_drift_is_mended_and_what_needs_a_person_is_said(world: World) -> None:
    await world.fungible()
    hold = await world.hold()
    await world.pool.execute("UPDATE stock.sub_counters SET held = held + 1 WHERE shard = 0")
    assert (await RepairDrift(world.stock).run_once()).done == {"repaired": 1, "left": 0}
    await world.pool.execute("DELETE FROM stock.hold_parts WHERE hold_id = $1", hold.name.id)
    report = await RepairDrift(world.stock).run_once()
    assert report.done["left"] == len(report.attention) > 0


async def test_one_pass_numbers_all_that_every_sku_has_in_its_ledger(world: World) -> None:
    for name in ("early", "late"):
        await world.fungible(name)
        await world.hold(name)
    report = await Number(History(world.pool)).run_once()
    assert report.done == {"rows": await world.pool.fetchval("SELECT count(*) FROM stock.ledger")}
    assert (await Number(History(world.pool)).run_once()).idle
