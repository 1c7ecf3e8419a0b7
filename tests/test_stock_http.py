"""The stock API's contract: who may call what, what each answer looks like, and what a repeat gets."""

from collections.abc import AsyncIterator

import pytest

from chassis.database import Pool
from chassis.settings import Settings
from tests.stock_counter import Counter, open_counter, problem

TICKET = {"sku": "ticket", "quantity": 1}


@pytest.fixture
async def counter(settings: Settings, pool: Pool) -> AsyncIterator[Counter]:
    async with open_counter(settings, pool) as counter:
        await counter.world.fungible(total=10, shards=2)
        yield counter


async def test_a_shop_walks_a_hold_to_its_sale(counter: Counter) -> None:
    hold = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 2}, buyer="ann")
    assert hold.keys() == {"id", "fence", "state", "expires_at", "lines", "server_time"}
    assert (hold["state"], hold["lines"]) == ("held", [{"sku": "ticket", "quantity": 2}])
    paying = await counter.on_hold(counter.shop, hold, "paying")
    assert (paying.status_code, paying.json()["state"]) == (200, "paying")
    sale = await counter.on_hold(counter.shop, hold, "confirm")
    assert (sale.status_code, sale.json()["hold"], sale.json()["state"]) == (200, hold["id"], "sold")
    read = await counter.api.get(f"/v1/holds/{hold['id']}", headers=counter.shop)
    assert (read.json()["state"], read.headers["cache-control"]) == ("sold", "no-store")
    level = (await counter.api.get("/v1/skus/ticket")).json()
    assert (level["total"], level["held"], level["sold"], level["available"]) == (10, 0, 2, 8)


@pytest.mark.parametrize("spelling", ["plain-key", '"plain-key"'])
async def test_a_repeat_is_the_first_answer_marked_as_replayed(counter: Counter, spelling: str) -> None:
    first = await counter.reserve(counter.shop, TICKET, key="plain-key")
    again = await counter.reserve(counter.shop, TICKET, key=spelling)
    assert (first.status_code, again.status_code) == (201, 201)
    assert "idempotent-replayed" not in first.headers and again.headers["idempotent-replayed"] == "true"
    assert first.text.rpartition(', "server_time"')[0] == again.text.rpartition(', "server_time"')[0]
    assert problem(await counter.reserve(counter.shop, {"sku": "ticket", "quantity": 2}, key="plain-key")) == (
        422,
        "key-reused",
    )


async def test_a_confirm_repeated_is_one_sale_whatever_the_key(counter: Counter) -> None:
    hold = await counter.hold(counter.shop)
    sales = [await counter.on_hold(counter.shop, hold, "confirm", key=key) for key in ("k", "k", "another")]
    assert [sale.status_code for sale in sales] == [200, 200, 200]
    assert len({sale.json()["id"] for sale in sales}) == 1
    assert [sale.headers.get("idempotent-replayed") for sale in sales] == [None, "true", "true"]
    assert problem(await counter.on_hold(counter.shop, hold, "confirm", key="k", fence=99)) == (422, "key-reused")
    assert problem(await counter.on_hold(counter.shop, hold, "confirm", fence=99)) == (409, "stale-fence")


async def test_a_part_is_sold_and_the_rest_returns(counter: Counter) -> None:
    hold = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 3})
    for lines in ([{"sku": "ticket", "quantity": 4}], [{"sku": "other", "quantity": 1}]):
        refused = await counter.on_hold(counter.shop, hold, "confirm", lines=lines)
        assert (*problem(refused), refused.json()["errors"][0]["pointer"]) == (422, "invalid", "/lines/0")
    part = [{"sku": "ticket", "quantity": 1}]
    sales = [await counter.on_hold(counter.shop, hold, "confirm", lines=lines) for lines in (part, None, part)]
    assert [sale.json()["lines"] for sale in sales] == [part] * 3
    assert [sale.headers.get("idempotent-replayed") for sale in sales] == [None, "true", "true"]
    assert await counter.world.counts() == (9, 0, 1)


async def test_an_expired_hold_is_sold_only_where_the_shop_asks_for_its_units_again(counter: Counter) -> None:
    hold = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 6})
    await counter.world.expire()
    assert problem(await counter.on_hold(counter.shop, hold, "confirm")) == (409, "hold-expired")
    others = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 6})
    gone = await counter.on_hold(counter.shop, hold, "confirm", reacquire=True)
    assert (*problem(gone), gone.json()["reacquired"], gone.json()["reason"]) == (
        409,
        "hold-expired",
        False,
        "insufficient-stock",
    )
    await counter.on_hold(counter.shop, others, "release")
    sale = await counter.on_hold(counter.shop, hold, "confirm", reacquire=True)
    assert (sale.status_code, sale.json()["hold"]) == (200, hold["id"])
    assert sale.json()["fence"] > hold["fence"]


async def test_a_cancelled_sale_gives_its_units_back_once(counter: Counter) -> None:
    hold = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 2})
    sale = (await counter.on_hold(counter.shop, hold, "confirm")).json()
    path = f"/v1/sales/{sale['id']}/cancel"
    for who, status in (({}, 401), (counter.buyer(), 401), (counter.operator, 403), (counter.other_shop, 404)):
        assert (await counter.api.post(path, json={"reason": "x"}, headers=who)).status_code == status
    for reason in ("rain", "again"):
        cancelled = await counter.api.post(path, json={"reason": reason}, headers=counter.shop)
        assert (cancelled.status_code, cancelled.json()["state"], cancelled.json()["reason"]) == (
            200,
            "cancelled",
            "rain",
        )
    assert await counter.world.counts() == (10, 0, 0)
    assert problem(await counter.on_hold(counter.shop, hold, "confirm")) == (409, "hold-released")


async def test_a_key_is_each_callers_own(counter: Counter) -> None:
    holds = [await counter.hold(who, key="same") for who in (counter.shop, counter.other_shop, counter.buyer())]
    assert len({hold["id"] for hold in holds}) == 3


async def test_a_buyer_holds_extends_and_gives_back_but_never_pays(counter: Counter) -> None:
    hold = await counter.hold(counter.buyer())
    assert problem(await counter.on_hold(counter.buyer(), hold, "paying")) == (401, "unauthenticated")
    assert problem(await counter.on_hold(counter.buyer(), hold, "confirm")) == (401, "unauthenticated")
    assert (await counter.on_hold(counter.buyer(), hold, "extend", seconds=600)).status_code == 200
    assert problem(await counter.on_hold(counter.buyer(), hold, "extend")) == (409, "extension-limit")
    released = [await counter.on_hold(counter.buyer(), hold, "release") for _ in range(2)]
    assert [(answer.status_code, answer.json()["state"]) for answer in released] == [(200, "released")] * 2
    assert problem(await counter.on_hold(counter.shop, hold, "confirm")) == (409, "hold-released")


async def test_a_buyer_cannot_take_back_what_is_being_paid_for(counter: Counter) -> None:
    hold = await counter.hold({**counter.shop, **counter.buyer()})
    assert (await counter.on_hold(counter.shop, hold, "paying")).status_code == 200
    for verb in ("release", "extend"):
        assert problem(await counter.on_hold(counter.buyer(), hold, verb)) == (409, "hold-paying")
    assert (await counter.on_hold(counter.shop, hold, "release")).json()["state"] == "released"


async def test_a_hold_stays_its_buyers_after_the_pass_has_expired(counter: Counter) -> None:
    hold = await counter.hold(counter.buyer())
    old = counter.buyer(age=3_600)
    assert problem(await counter.reserve(old, TICKET)) == (403, "pass-refused")
    assert (await counter.api.get(f"/v1/holds/{hold['id']}", headers=old)).status_code == 200
    assert (await counter.on_hold(old, hold, "release")).status_code == 200


async def test_a_foreign_hold_is_not_there(counter: Counter) -> None:
    hold = await counter.hold({**counter.shop, **counter.buyer()})
    for who in (counter.other_shop, counter.buyer("bob"), counter.buyer("ann", "elsewhere")):
        assert problem(await counter.api.get(f"/v1/holds/{hold['id']}", headers=who)) == (404, "not-found")
        assert problem(await counter.on_hold(who, hold, "release")) == (404, "not-found")
    assert problem(await counter.on_hold(counter.other_shop, hold, "confirm")) == (404, "not-found")
    assert problem(await counter.api.get(f"/v1/holds/{hold['id']}")) == (401, "pass-required")


async def test_a_sku_with_a_room_is_reserved_with_that_rooms_live_pass_only(counter: Counter) -> None:
    await counter.world.fungible("gated", room="onsale")
    line = {"sku": "gated", "quantity": 1}
    assert problem(await counter.reserve({}, line)) == (401, "pass-required")
    assert problem(await counter.reserve(counter.shop, line)) == (401, "pass-required")
    assert problem(await counter.reserve(counter.shop, line, buyer="ann")) == (401, "pass-required")
    elsewhere = counter.buyer(room="elsewhere")
    assert problem(await counter.reserve({**counter.shop, **elsewhere}, line)) == (403, "pass-refused")
    for forged in ("", "nonsense", "é", counter.pass_for()[:-4] + "AAAA", "a.b.c", "x" * 5_000):
        refused = await counter.reserve({"Fairgate-Pass": forged.encode()}, line)
        assert problem(refused)[1] in ("pass-refused", "pass-required")
    assert (await counter.reserve({**counter.shop, **counter.buyer()}, line)).status_code == 201
    assert (await counter.reserve(counter.buyer("bob"), line)).status_code == 201


async def test_cookies_of_several_rooms_do_no_harm(counter: Counter) -> None:
    await counter.world.fungible("gated", room="onsale")
    tokens = {
        "fairgate-pass-a": counter.pass_for(room="a", age=3_600),
        "fairgate-pass-b": counter.pass_for(room="b"),
        "fairgate-pass-onsale": counter.pass_for(),
        "other": "x",
    }
    cookies = {"Cookie": "; ".join(f"{name}={token}" for name, token in tokens.items())}
    hold = await counter.hold(cookies, {"sku": "gated", "quantity": 1})
    assert (await counter.api.get(f"/v1/holds/{hold['id']}", headers=cookies)).status_code == 200
    assert (await counter.on_hold(cookies, hold, "release")).status_code == 200


async def test_the_pass_says_who_buys(counter: Counter) -> None:
    await counter.world.fungible("limited", buyer_max=2)
    line = {"sku": "limited", "quantity": 2}
    assert problem(await counter.reserve(counter.buyer(), line, buyer="bob")) == (422, "invalid")
    assert problem(await counter.reserve(counter.shop, line)) == (422, "invalid")
    assert (await counter.reserve(counter.shop, line, buyer="bob")).status_code == 201
    answers = [
        await counter.reserve({"Fairgate-Pass": counter.pass_for(sub, room, identity="one person")}, line)
        for sub, room in (("ann", "onsale"), ("eve", "elsewhere"))
    ]
    assert [answer.status_code for answer in answers] == [201, 409]
    refused = answers[1].json()
    assert (refused["code"], refused["limit"], refused["taken"]) == ("buyer-limit", 2, 2)


async def test_a_refusal_for_stock_carries_its_numbers(counter: Counter) -> None:
    hold = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 8})
    few = await counter.reserve(counter.shop, {"sku": "ticket", "quantity": 5})
    assert problem(few) == (409, "insufficient-stock")
    assert (few.json()["available"], few.json()["held"], few.json()["next_release_at"]) == (2, 8, hold["expires_at"])
    await counter.hold(counter.shop, {"sku": "ticket", "quantity": 2})
    none = await counter.reserve(counter.shop, TICKET)
    assert (*problem(none), none.json()["available"], none.json()["held"]) == (409, "sold-out", 0, 10)


async def test_the_seat_map_is_kept_by_its_etag_and_shows_what_changed(counter: Counter) -> None:
    await counter.world.seated(rows=2, seats=2)
    first = await counter.api.get("/v1/skus/hall/seats")
    assert [seat["seat"] for seat in first.json()["seats"]] == ["A-1", "A-2", "B-1", "B-2"]
    kept = {"If-None-Match": first.headers["etag"]}
    assert (await counter.api.get("/v1/skus/hall/seats", headers=kept)).status_code == 304
    await counter.hold(counter.shop, {"sku": "hall", "seats": ["B-2", "A-1"]})

    taken = await counter.reserve(counter.shop, {"sku": "hall", "seats": ["A-2", "A-1"]})
    assert (*problem(taken), taken.json()["seats"]) == (409, "seat-taken", ["A-1"])
    unknown = await counter.reserve(counter.shop, {"sku": "hall", "seats": ["Z-9"]})
    assert (*problem(unknown), unknown.json()["errors"][0]["pointer"]) == (422, "invalid", "/lines")
    assert problem(await counter.api.get("/v1/skus/ticket/seats")) == (404, "not-found")
