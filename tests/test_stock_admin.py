"""The operators' side of the stock API: SKUs put and put again, holds that wait for a person, the audit."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from chassis.database import Pool
from chassis.settings import Settings
from tests.stock_counter import Counter, open_counter, problem

SEATS = [{"seat": f"A-{n}", "section": "stalls", "row": "A", "number": n} for n in range(1, 4)]


@pytest.fixture
async def counter(settings: Settings, pool: Pool) -> AsyncIterator[Counter]:
    async with open_counter(settings, pool) as counter:
        yield counter


async def put(counter: Counter, name: str, **settings: Any) -> tuple[int, Any]:
    response = await counter.api.put(f"/admin/skus/{name}", json=settings, headers=counter.operator)
    return response.status_code, response.json()


async def test_putting_a_sku_is_idempotent_and_reading_it_shows_every_default(counter: Counter) -> None:
    created, settings = await put(counter, "ticket", title="Ticket", total=100, shards=4)
    again, same = await put(counter, "ticket", title="Ticket", total=100, shards=4)
    assert (created, again) == (201, 200) and settings == same
    read = (await counter.api.get("/admin/skus/ticket", headers=counter.operator)).json()
    assert read == settings
    assert (read["hold_seconds"], read["state"], read["kind"], read["room"]) == (300, "on_sale", "fungible", None)
    listed = (await counter.api.get("/admin/skus", headers=counter.operator)).json()["skus"]
    assert [(sku["sku"], sku["available"]) for sku in listed] == [("ticket", 100)]


async def test_a_total_is_restated_but_never_below_what_is_given(counter: Counter) -> None:
    await put(counter, "ticket", title="Ticket", total=10, shards=4)
    hold = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 3})
    await counter.on_hold(counter.shop, hold, "confirm")
    await counter.hold(counter.shop, {"sku": "ticket", "quantity": 2})
    status, refused = await put(counter, "ticket", title="Ticket", total=4, shards=4)
    assert (status, refused["code"]) == (409, "below-commitments")
    assert (refused["total"], refused["held"], refused["sold"]) == (10, 2, 3)
    assert (await put(counter, "ticket", title="Ticket", total=5, shards=4))[0] == 200
    assert await counter.world.counts() == (0, 2, 3)
    assert await counter.world.faults() == []


async def test_a_seated_sku_is_put_with_its_seats(counter: Counter) -> None:
    status, settings = await put(counter, "hall", title="Hall", kind="seated", seats=SEATS)
    assert (status, settings["total"]) == (201, 3)
    assert (await put(counter, "hall", title="Hall again", kind="seated", seats=SEATS))[0] == 200
    assert (await put(counter, "hall", title="Hall", kind="seated", total=3))[0] == 200
    status, refused = await put(counter, "hall", title="Hall", kind="seated", seats=SEATS[:2])
    assert (status, refused["code"]) == (409, "exists")


BAD_SETTINGS: list[dict[str, Any]] = [
    {},
    {"title": "T"},
    {"title": "", "total": 1},
    {"title": "T", "total": -1},
    {"title": "T", "total": 1.5},
    {"title": "T", "total": 2**63},
    {"title": "T", "total": 1, "shards": 0},
    {"title": "T", "total": 1, "shards": 5_000},
    {"title": "T", "total": 1, "colour": "red"},
    {"title": "T", "total": 1, "kind": "seated"},
    {"title": "T", "total": 1, "seats": SEATS},
    {"title": "T", "kind": "seated", "seats": SEATS, "total": 4},
    {"title": "T", "kind": "seated", "seats": [SEATS[0], SEATS[0]]},
    {"title": "T", "kind": "seated", "seats": SEATS, "shards": 2},
    {"title": "T", "total": 1, "hold_seconds": 10, "hold_seconds_max": 5},
    {"title": "T", "total": 1, "on_sale_at": "2026-12-02T00:00:00Z", "off_sale_at": "2026-12-01T00:00:00Z"},
    {"title": "T", "total": 1, "on_sale_at": "0001-01-01T00:00:00+10:00"},
    {"title": "T", "total": 1, "room": "Not A Room"},
    {"title": "T", "total": 1, "buyer_max": 0},
]


async def test_settings_that_cannot_hold_are_refused_and_nothing_is_created(counter: Counter) -> None:
    for settings in BAD_SETTINGS:
        status, refused = await put(counter, "ticket", **settings)
        assert (status, refused["code"]) == (422, "invalid"), settings
    for name in ("UPPER", "a" * 64, "%00", "a b"):
        assert (await put(counter, name, title="T", total=1))[0] == 422, name
    assert await counter.world.stock.levels() == []


async def test_a_payment_that_nobody_knows_of_waits_for_a_person(counter: Counter) -> None:
    await put(counter, "ticket", title="Ticket", total=10)
    holds = [await counter.hold(counter.shop) for _ in range(2)]
    for hold in holds:
        await counter.on_hold(counter.shop, hold, "paying")
    await counter.world.pool.execute(
        "UPDATE stock.holds SET stuck_since = clock_timestamp() WHERE id = $1", holds[0]["id"]
    )

    async def listed(state: str) -> list[str]:
        answer = await counter.api.get("/admin/holds", params={"state": state}, headers=counter.operator)
        return [hold["id"] for hold in answer.json()["holds"]]

    assert await listed("stuck") == [holds[0]["id"]]
    assert set(await listed("paying")) == {hold["id"] for hold in holds}
    assert problem(await counter.api.get("/admin/holds", headers=counter.operator)) == (422, "invalid")

    for hold, outcome, state in ((holds[0], "paid", "sold"), (holds[1], "unpaid", "released")):
        for _ in range(2):
            answer = await resolve(counter, hold, outcome=outcome, reason="the bank says so")
            assert (answer.status_code, answer.json()["state"]) == (200, state)
    assert problem(await resolve(counter, holds[0], outcome="unpaid", reason="no")) == (409, "hold-not-paying")
    assert problem(await resolve(counter, holds[0], outcome="unknown", reason="no")) == (422, "invalid")
    assert problem(await resolve(counter, holds[0], outcome="paid")) == (422, "invalid")
    assert await counter.world.pool.fetchval("SELECT count(*) FROM stock.ledger WHERE reason = 'the bank says so'") == 2
    assert await counter.world.faults() == []


async def test_the_audit_says_what_is_off(counter: Counter) -> None:
    await put(counter, "ticket", title="Ticket", total=10)
    balanced = (await counter.api.get("/admin/audit", headers=counter.operator)).json()
    assert (balanced["balanced"], balanced["faults"]) == (True, [])
    await counter.world.pool.execute("UPDATE stock.sub_counters SET held = held + 1")
    off = (await counter.api.get("/admin/audit", headers=counter.operator)).json()
    assert off["balanced"] is False
    assert {fault["invariant"] for fault in off["faults"]} == {"I2", "I9"}


async def resolve(counter: Counter, hold: dict[str, Any], **body: str) -> Any:
    return await counter.api.post(f"/admin/holds/{hold['id']}/resolve", json=body, headers=counter.operator)
