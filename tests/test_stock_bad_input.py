"""What the stock API is sent by mistake or in malice: always a problem document, never a 500, never half an effect."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from chassis.database import Pool
from chassis.settings import Settings
from tests.stock_counter import Counter, open_counter, problem

JSON = {"Content-Type": "application/json"}
NO_HOLD = "019ffa3e-4b70-7fc2-9d77-95d700000001"


@pytest.fixture
async def counter(settings: Settings, pool: Pool) -> AsyncIterator[Counter]:
    async with open_counter(settings, pool) as counter:
        await counter.world.fungible(total=10, shards=2)
        await counter.world.seated(rows=1, seats=3)
        yield counter
        assert await counter.world.faults() == []


BAD_BODIES = [
    ("", 400, "malformed"),
    ("{", 400, "malformed"),
    ('{"lines":' + "[" * 2_000, 422, "invalid"),
    ("[]", 422, "invalid"),
    ("null", 422, "invalid"),
    ("{}", 422, "invalid"),
    ('{"lines": []}', 422, "invalid"),
    ('{"lines": [{"sku": "ticket", "quantity": NaN}]}', 400, "malformed"),
    ('{"lines": [{"sku": "ticket", "quantity": 1}], "priority": 1}', 422, "invalid"),
    ('{"lines": [{"sku": "ticket", "best": {"quantity": 2}}]}', 422, "invalid"),
    ('{"lines": [{"sku": "ticket"}]}', 422, "invalid"),
    ('{"lines": [{"sku": "ticket", "quantity": 1, "seats": ["A-1"]}]}', 422, "invalid"),
    ('{"lines": [{"sku": "ticket", "seats": ["A-1"]}]}', 422, "invalid"),
    ('{"lines": [{"sku": "hall", "quantity": 1}]}', 422, "invalid"),
    ('{"lines": [{"sku": "hall", "seats": []}]}', 422, "invalid"),
    ('{"lines": [{"sku": "hall", "seats": ["A-1", "A-1"]}]}', 422, "invalid"),
    ('{"lines": [{"sku": "hall", "seats": ["A\\u0000"]}]}', 422, "invalid"),
    ('{"lines": [{"sku": "hall", "seats": ["\\ud800"]}]}', 400, "malformed"),
    ('{"lines": [{"sku": "hall", "seats": ["' + "A" * 65 + '"]}]}', 422, "invalid"),
    ('{"lines": [{"sku": "ticket\\n", "quantity": 1}]}', 422, "invalid"),
    ('{"lines": [{"sku": "TICKET", "quantity": 1}]}', 422, "invalid"),
    ('{"lines": [{"sku": "ticket", "quantity": 1}], "buyer": "a\\u0000"}', 422, "invalid"),
    ('{"lines": [{"sku": "ticket", "quantity": 1}], "buyer": ""}', 422, "invalid"),
    ('{"lines": [{"sku": "nowhere", "quantity": 1}]}', 404, "not-found"),
    ('{"lines": [' + ", ".join(['{"sku": "ticket", "quantity": 1}'] * 101) + "]}", 422, "invalid"),
    ('{"lines": [' + ", ".join(['{"sku": "ticket", "quantity": 1000}'] * 2) + "]}", 422, "invalid"),
    ('{"lines": [], "x": "' + "x" * 70_000 + '"}', 413, "too-large"),
]
BAD_QUANTITIES = ["0", "-1", "1.5", "1001", "9223372036854775808", "1e400", '"1"', "true", "null", "[1]"]


BAD_FENCES = ["0", "-1", "1.5", "9007199254740992", '"1"', "null"]
BAD_CONFIRMS: list[dict[str, Any]] = [
    {"lines": []},
    {"lines": [{"sku": "ticket"}]},
    {"lines": [{"sku": "ticket", "quantity": 0}]},
    {"lines": [{"sku": "ticket", "quantity": 2}]},
    {"lines": [{"sku": "ticket", "quantity": 2**63}]},
    {"lines": [{"sku": "ticket", "quantity": 1}] * 101},
    {"lines": [{"sku": "ticket", "quantity": 1, "seats": ["A-1"]}]},
    {"lines": [{"sku": "hall", "seats": ["A-1", "A-1"]}]},
    {"lines": [{"sku": "hall", "seats": ["A-1"]}]},
    {"lines": [{"sku": "nowhere", "quantity": 1}]},
    {"lines": "all"},
    {"reacquire": "yes"},
    {"reacquire": 1},
    {"part": True},
]
BAD_MOMENTS = [
    "tomorrow",
    "2026-12-01T10:00:00",
    5,
    "0000-00-00T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
]
BAD_AUTHORIZATIONS = [
    "",
    "Bearer",
    "Bearer fgk_x",
    "Basic fgk_x",
    "Bearer fgk_000000000000_" + "A" * 43,
    "Bearer \xe9",
    "Bearer " + "k" * 9_000,
]
BAD_KEYS = [
    (None, "key-missing"),
    ("", "key-missing"),
    ('""', "malformed"),
    ('"open', "malformed"),
    ("two words", "malformed"),
    ("tab\there", "malformed"),
    ("é".encode(), "malformed"),
    ("k" * 256, "malformed"),
    ("k" * 1_000_000, "malformed"),
    ('"' + "k" * 256 + '"', "malformed"),
]


async def test_a_bad_reserve_is_told_what_is_wrong(counter: Counter) -> None:
    headers = {**counter.shop, **JSON, "Idempotency-Key": "k"}
    for body, status, code in BAD_BODIES:
        response = await counter.api.post("/v1/holds", content=body.encode(), headers=headers)
        assert problem(response) == (status, code), body[:100]
        if code == "invalid":
            assert all(error.keys() == {"pointer", "reason"} for error in response.json()["errors"])
    assert await counter.world.counts() == (10, 0, 0)


async def test_a_quantity_is_a_whole_number_of_units(counter: Counter) -> None:
    headers = {**counter.shop, **JSON, "Idempotency-Key": "k"}
    for quantity in BAD_QUANTITIES:
        body = f'{{"lines": [{{"sku": "ticket", "quantity": {quantity}}}]}}'
        response = await counter.api.post("/v1/holds", content=body, headers=headers)
        assert problem(response)[0] in (400, 422), quantity
    assert await counter.world.counts() == (10, 0, 0)


async def test_a_fence_is_a_number_that_a_hold_may_carry(counter: Counter) -> None:
    hold = await counter.hold(counter.shop)
    headers = {**counter.shop, **JSON, "Idempotency-Key": "k"}
    for verb in ("paying", "confirm", "release", "extend"):
        for fence in BAD_FENCES:
            path = f"/v1/holds/{hold['id']}/{verb}"
            response = await counter.api.post(path, content=f'{{"fence": {fence}}}', headers=headers)
            assert problem(response) == (422, "invalid"), fence
    assert problem(await counter.on_hold(counter.shop, hold, "confirm", fence=hold["fence"] + 1)) == (
        409,
        "stale-fence",
    )


async def test_a_key_is_visible_ascii_and_bounded(counter: Counter) -> None:
    hold = await counter.hold(counter.shop, key="k" * 255)
    line = {"lines": [{"sku": "ticket", "quantity": 1}]}
    for key, code in BAD_KEYS:
        headers: dict[str, Any] = {**counter.shop} if key is None else {**counter.shop, "Idempotency-Key": key}
        assert problem(await counter.api.post("/v1/holds", json=line, headers=headers)) == (400, code)
        path = f"/v1/holds/{hold['id']}/confirm"
        assert problem(await counter.api.post(path, json={"fence": hold["fence"]}, headers=headers)) == (400, code)


async def test_a_hold_that_is_not_there(counter: Counter) -> None:
    for hold_id in ("x", "1", NO_HOLD, "0" * 32, NO_HOLD[:-8] + "ffffffff", "%00", "%ff"):
        assert problem(await counter.api.get(f"/v1/holds/{hold_id}", headers=counter.shop)) == (404, "not-found")
        for verb in ("paying", "confirm", "release", "extend"):
            answer = await counter.on_hold(counter.shop, {"id": hold_id, "fence": 1}, verb)
            assert problem(answer) == (404, "not-found"), hold_id


async def test_a_bad_confirm_sells_nothing(counter: Counter) -> None:
    hold = await counter.hold(counter.shop)
    for fields in BAD_CONFIRMS:
        answer = await counter.on_hold(counter.shop, hold, "confirm", **fields)
        assert problem(answer) == (422, "invalid"), fields
    assert await counter.world.counts() == (9, 1, 0)


async def test_a_sale_that_is_not_there(counter: Counter) -> None:
    hold = await counter.hold(counter.shop)
    for sale_id in ("x", NO_HOLD, hold["id"], NO_HOLD[:-8] + "ffffffff", "%00", "%ff"):
        answer = await counter.api.post(f"/v1/sales/{sale_id}/cancel", json={"reason": "x"}, headers=counter.shop)
        assert problem(answer) == (404, "not-found"), sale_id
    for body in (
        {},
        {"reason": ""},
        {"reason": "a\0"},
        {"reason": "x" * 501},
        {"reason": 1},
        {"reason": "x", "fence": 1},
    ):
        answer = await counter.api.post(f"/v1/sales/{hold['id']}/cancel", json=body, headers=counter.shop)
        assert problem(answer) == (422, "invalid"), body


async def test_a_sku_that_is_not_there(counter: Counter) -> None:
    for name in ("nowhere", "%00", "UPPER", "a" * 64, "%0a", "%F0%9F%8E%AB", "ticket%0a"):
        for path in (f"/v1/skus/{name}", f"/v1/skus/{name}/seats"):
            assert problem(await counter.api.get(path)) == (404, "not-found"), name
        assert problem(await counter.api.get(f"/admin/skus/{name}", headers=counter.operator)) == (404, "not-found")


async def test_the_method_and_the_media_type_must_fit(counter: Counter) -> None:
    hold = await counter.hold(counter.shop)
    for method, path in (
        ("DELETE", "/v1/holds"),
        ("GET", f"/v1/holds/{hold['id']}/confirm"),
        ("POST", "/v1/skus/ticket"),
    ):
        response = await counter.api.request(method, path, headers=counter.shop)
        assert problem(response) == (405, "method-not-allowed") and response.headers["allow"]
    assert problem(await counter.api.get("/v2/holds")) == (404, "not-found")
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {**counter.shop, "Idempotency-Key": "k", "Content-Type": content_type}
        response = await counter.api.post("/v1/holds", content=b"{}", headers=headers)
        assert problem(response) == (415, "unsupported-media-type")


async def test_a_payments_deadline_is_a_moment_with_its_zone(counter: Counter) -> None:
    hold = await counter.hold(counter.shop)
    for until in BAD_MOMENTS:
        response = await counter.on_hold(counter.shop, hold, "paying", until=until)
        assert problem(response) == (422, "invalid"), until
    for until in ("1970-01-01T00:00:00Z", "2999-12-31T23:59:59+14:00"):
        response = await counter.on_hold(counter.shop, hold, "paying", until=until)
        assert (response.status_code, response.json()["state"]) == (200, "paying")
        assert response.json()["expires_at"] < "2100"


async def test_a_key_that_is_not_ours_opens_nothing(counter: Counter) -> None:
    line = {"lines": [{"sku": "ticket", "quantity": 1}]}
    for authorization in BAD_AUTHORIZATIONS:
        headers: dict[str, Any] = {"Authorization": authorization.encode("latin-1"), "Idempotency-Key": "k"}
        assert problem(await counter.api.post("/v1/holds", json=line, headers=headers)) == (401, "unauthenticated")
        assert problem(await counter.api.get("/admin/skus", headers=headers)) == (401, "unauthenticated")
    for wrong in (counter.shop, counter.buyer()):
        assert problem(await counter.api.get("/admin/skus", headers=wrong))[0] in (401, 403)
    assert problem(await counter.reserve(counter.operator, {"sku": "ticket", "quantity": 1})) == (403, "forbidden")


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("on_sale_at", "1970-01-01T00:00:00+05:00", 422),
        ("off_sale_at", "2999-12-31T23:59:59-05:00", 422),
        ("on_sale_at", "0001-01-01T00:00:00+05:00", 422),
        ("off_sale_at", "9999-12-31T23:59:59-05:00", 422),
        ("on_sale_at", "2026-01-01T00:00:00-16:00", 201),
        ("on_sale_at", "2026-01-01T00:00:00+23:59", 201),
    ],
)
async def test_a_moment_in_any_zone_is_kept_or_refused_whole(
    counter: Counter, field: str, value: str, status: int
) -> None:
    body = {"title": "T", "total": 5, field: value}
    assert (await counter.api.put("/admin/skus/zoned", json=body, headers=counter.operator)).status_code == status
    expected = 200 if status == 201 else 404
    assert (await counter.api.get("/admin/skus/zoned", headers=counter.operator)).status_code == expected


@pytest.mark.parametrize(("x", "status"), [(1e300, 422), (1e39, 422), (1e-300, 201), (-13.48, 201)])
async def test_a_seat_stands_within_the_hall(counter: Counter, x: float, status: int) -> None:
    seat = {"seat": "a", "section": "s", "row": "r", "number": 1, "x": x}
    body = {"title": "H", "kind": "seated", "seats": [seat]}
    assert (await counter.api.put("/admin/skus/drawn", json=body, headers=counter.operator)).status_code == status
