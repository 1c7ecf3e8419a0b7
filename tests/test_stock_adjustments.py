"""What a seller changes in sale: totals as their sources say, never silently below what is promised; halting; bounded oversell."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from chassis.database import Pool
from chassis.settings import Settings
from counters.adjust_api import adjust_key
from counters.adjustments import AdjustBody, Adjustments
from counters.rules import Done, Line, Oversell, Refused, SkuSettings
from counters.store import Sku
from tests.stock_counter import Counter, open_counter, problem
from tests.stock_world import World, codes, held

SOURCE = {"source": "till", "reason": "counted by hand"}


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


@pytest.fixture
async def counter(settings: Settings, pool: Pool) -> AsyncIterator[Counter]:
    async with open_counter(settings, pool) as counter:
        yield counter


def change(kind: Any, quantity: int, if_short: Any = "refuse") -> AdjustBody:
    return AdjustBody(kind=kind, quantity=quantity, source="till", reason="counted", if_short=if_short)


async def adjust(world: World, sku: Sku, body: AdjustBody, key: str | None = None) -> Done | Refused:
    keyed = adjust_key("operator:test", sku.id, key or secrets.token_hex(8), body)
    return await world.stock.adjust(sku.id, body, "operator:test", keyed)


async def total(world: World, name: str = "ticket") -> int:
    (level,) = await world.stock.levels([name])
    return level.total


async def post(counter: Counter, path: str, key: str | None = None, **body: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key or secrets.token_hex(8), **counter.operator}
    return await counter.api.post(f"/admin/{path}", json=body, headers=headers)


async def test_an_adjustment_changes_the_total_and_says_by_whom_and_why(world: World, pool: Pool) -> None:
    sku = await world.fungible(total=10)
    assert codes([await adjust(world, sku, change("increase", 5))]) == ["done"]
    assert codes([await adjust(world, sku, change("reduce", 3))]) == ["done"]
    assert codes([await adjust(world, sku, change("recount", 20))]) == ["done"]
    assert codes([await adjust(world, sku, change("recount", 20))]) == ["done"]
    assert await total(world) == 20
    made = await Adjustments(pool).latest(sku.id, None, 10)
    assert [(one.kind, one.delta, one.short) for one in made] == [
        ("recount", 0, 0),
        ("recount", 8, 0),
        ("reduce", -3, 0),
        ("increase", 5, 0),
    ]
    assert {(one.source, one.reason, one.actor) for one in made} == {("till", "counted", "operator:test")}
    assert [one.delta for one in await Adjustments(pool).latest(sku.id, made[1].id, 10)] == [-3, 5]
    (by_till,) = await Adjustments(pool).by_source(sku.id)
    assert (by_till.source, by_till.delta, by_till.adjustments) == ("till", 10, 4)
    assert await world.faults() == []


async def test_a_repeated_adjustment_counts_once(counter: Counter) -> None:
    await counter.world.fungible(total=10)
    body = {"kind": "increase", "quantity": 5, **SOURCE}
    first = await post(counter, "skus/ticket/adjustments", "k", **body)
    again = await post(counter, "skus/ticket/adjustments", "k", **body)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert {**first.json(), "server_time": ""} == {**again.json(), "server_time": ""}
    other = await post(counter, "skus/ticket/adjustments", "k", **{**body, "quantity": 6})
    assert problem(other) == (422, "key-reused")
    assert await total(counter.world) == 15


async def test_a_reduction_below_what_is_given_is_refused_with_the_numbers_and_the_choices(counter: Counter) -> None:
    await counter.world.fungible(total=10)
    sold = await counter.world.hold(quantity=4)
    assert codes([await counter.world.confirm(sold)]) == ["done"]
    await counter.world.hold(quantity=3)
    refused = await post(counter, "skus/ticket/adjustments", kind="reduce", quantity=5, **SOURCE)
    assert problem(refused) == (409, "below-commitments")
    facts = refused.json()
    assert {name: facts[name] for name in ("total", "held", "sold", "free", "asked")} == {
        "total": 10,
        "held": 3,
        "sold": 4,
        "free": 3,
        "asked": 5,
    }
    assert facts["choices"] == ["accept-shortage", "wait", "cancel"]
    assert await total(counter.world) == 10
    assert await counter.world.faults() == []


async def test_an_accepted_shortage_takes_what_is_free_and_leaves_an_open_incident(counter: Counter) -> None:
    await counter.world.fungible(total=10)
    await counter.world.hold(quantity=7)
    body = {"kind": "reduce", "quantity": 5, "if_short": "accept", **SOURCE}
    for _ in range(2):
        made = await post(counter, "skus/ticket/adjustments", "k", **body)
        assert made.status_code == 201
    document = made.json()
    assert (document["delta"], document["short"], document["total"], document["available"]) == (-3, 2, 7, 0)
    listed = await counter.api.get("/admin/incidents", params={"state": "open"}, headers=counter.operator)
    (incident,) = listed.json()["incidents"]
    assert (incident["id"], incident["adjustment"]) == (document["incident"], document["id"])
    assert (incident["sku"], incident["kind"], incident["quantity"], incident["source"]) == (
        "ticket",
        "shortage",
        2,
        "till",
    )
    closed = await counter.api.get("/admin/incidents", params={"state": "closed"}, headers=counter.operator)
    assert closed.json()["incidents"] == []
    assert await counter.world.faults() == []


async def test_a_recount_that_finds_fewer_than_are_given_keeps_what_is_given(world: World, pool: Pool) -> None:
    sku = await world.fungible(total=10)
    await world.hold(quantity=7)
    assert codes([await adjust(world, sku, change("recount", 6))]) == ["below-commitments"]
    assert codes([await adjust(world, sku, change("recount", 6, "accept"))]) == ["done"]
    (incident,) = await Adjustments(pool).incidents(sku.id, "open", 10)
    assert (await total(world), incident.quantity) == (7, 1)
    (made,) = await Adjustments(pool).latest(sku.id, None, 10)
    assert (made.delta, made.short, made.incident) == (-3, 1, incident.id)


async def test_a_shortage_with_nothing_free_is_in_the_ledger_too(world: World, pool: Pool) -> None:
    sku = await world.fungible(total=5)
    await world.hold(quantity=5)
    assert codes([await adjust(world, sku, change("reduce", 2, "accept"))]) == ["done"]
    (made,) = await Adjustments(pool).latest(sku.id, None, 10)
    assert (made.kind, made.delta, made.short) == ("reduce", 0, 2)
    assert await world.faults() == []


@pytest.mark.parametrize("if_short", ["refuse", "accept"])
async def test_due_holds_stand_in_no_sellers_way(world: World, pool: Pool, if_short: str) -> None:
    sku = await world.fungible(total=10)
    for _ in range(2):
        await world.hold(quantity=4)
    await world.expire()
    assert codes([await adjust(world, sku, change("reduce", 9, if_short))]) == ["done"]
    assert await world.counts() == (1, 0, 0)
    assert await Adjustments(pool).incidents(None, None, 10) == []


async def test_what_cannot_be_adjusted_is_said_so_and_nothing_moves(counter: Counter) -> None:
    await counter.world.seated()
    await counter.world.fungible(total=10)
    refused = await post(counter, "skus/hall/adjustments", kind="increase", quantity=1, **SOURCE)
    assert problem(refused) == (422, "invalid")
    assert "seats" in refused.json()["detail"]
    bad: list[dict[str, Any]] = [
        {"kind": "increase", "quantity": 1_000_000_000},
        {"kind": "increase", "quantity": 0},
        {"kind": "increase", "quantity": -1},
        {"kind": "increase", "quantity": 2**63},
        {"kind": "recount", "quantity": 1.5},
        {"kind": "steal", "quantity": 1},
        {"kind": "reduce", "quantity": 1, "if_short": "hide"},
        {"kind": "reduce", "quantity": 1, "source": ""},
        {"kind": "reduce", "quantity": 1, "reason": "a\u0000b"},
        {"kind": "reduce", "quantity": 1, "occurred_at": "yesterday"},
        {"kind": "reduce", "quantity": 1, "colour": "red"},
    ]
    for body in bad:
        refused = await post(counter, "skus/ticket/adjustments", **{**SOURCE, **body})
        assert problem(refused) == (422, "invalid"), body
    keyless = await counter.api.post(
        "/admin/skus/ticket/adjustments", json={"kind": "reduce", "quantity": 1, **SOURCE}, headers=counter.operator
    )
    assert problem(keyless) == (400, "key-missing")
    assert problem(await post(counter, "skus/nothing/adjustments", kind="reduce", quantity=1, **SOURCE)) == (
        404,
        "not-found",
    )
    assert await total(counter.world) == 10


async def test_only_operators_adjust_halt_and_read_the_books(counter: Counter) -> None:
    await counter.world.fungible()
    calls = [
        ("POST", "skus/ticket/adjustments"),
        ("GET", "skus/ticket/adjustments"),
        ("POST", "skus/ticket/halt"),
        ("POST", "skus/ticket/resume"),
        ("GET", "skus/ticket/history"),
        ("GET", "incidents"),
        ("GET", "holds/01a22bce-4490-7e9e-a368-000000000001"),
    ]
    for method, path in calls:
        for who, answer in ((counter.shop, (403, "forbidden")), ({}, (401, "unauthenticated"))):
            response = await counter.api.request(method, f"/admin/{path}", headers=dict(who))
            assert problem(response) == answer, path


async def test_two_adjusters_at_once_lose_no_change(world: World) -> None:
    sku = await world.fungible(total=100, shards=8)
    outcomes = await asyncio.gather(
        *(adjust(world, sku, change(("increase", "reduce")[n % 2], 3 + n % 2)) for n in range(20))
    )
    assert codes(outcomes) == ["done"] * 20
    assert await total(world) == 100 + 10 * 3 - 10 * 4
    assert await world.faults() == []


async def test_buyers_and_adjusters_never_overwrite_each_other(world: World) -> None:
    sku = await world.fungible(total=150, shards=8)

    async def seller() -> list[str]:
        bodies = [change("increase", 10), change("reduce", 7), change("recount", 140, "accept")] * 3
        return codes([await adjust(world, sku, body) for body in bodies])

    selling = asyncio.create_task(seller())
    words = codes(await asyncio.gather(*(world.reserve(Line("ticket", 1 + n % 2)) for n in range(200))))
    assert set(await selling) <= {"done", "below-commitments"}
    available, taken, _ = await world.counts()
    assert taken == sum(1 + n % 2 for n, word in enumerate(words) if word == "done")
    assert await total(world) == available + taken
    assert await world.faults() == []


async def test_a_halted_sale_grants_nothing_more_and_keeps_what_it_granted(counter: Counter) -> None:
    await counter.world.fungible()
    kept, given_back = await counter.hold(counter.shop), await counter.hold(counter.shop)
    for _ in range(2):
        halted = await post(counter, "skus/ticket/halt", reason="fraud in the east stand")
        assert (halted.status_code, halted.json()["state"]) == (200, "halted")
    refused = await counter.reserve(counter.shop, {"sku": "ticket", "quantity": 1})
    assert problem(refused) == (409, "not-on-sale")
    assert (await counter.on_hold(counter.shop, kept, "confirm")).status_code == 200
    assert (await counter.on_hold(counter.shop, given_back, "release")).status_code == 200
    resumed = await post(counter, "skus/ticket/resume", reason="cleared")
    assert (resumed.status_code, resumed.json()["state"]) == (200, "on_sale")
    await counter.hold(counter.shop)
    rows = await counter.world.pool.fetch(
        "SELECT verb, reason, actor FROM stock.ledger WHERE verb IN ('halt', 'resume') ORDER BY id"
    )
    assert [tuple(row) for row in rows] == [
        ("halt", "fraud in the east stand", "operator:ops"),
        ("resume", "cleared", "operator:ops"),
    ]
    assert await counter.world.faults() == []


async def test_a_seated_sale_is_halted_too_and_its_books_balance(counter: Counter) -> None:
    await counter.world.seated()
    assert (await post(counter, "skus/hall/halt", reason="fire drill")).status_code == 200
    assert problem(await counter.reserve(counter.shop, {"sku": "hall", "seats": ["A-1"]})) == (409, "not-on-sale")
    assert await counter.world.faults() == []


@pytest.mark.parametrize("state", ["draft", "ended"])
async def test_what_is_not_on_sale_is_put_on_sale_by_no_resume(counter: Counter, state: str) -> None:
    await counter.world.fungible(state=state)
    for verb in ("halt", "resume"):
        refused = await post(counter, f"skus/ticket/{verb}", reason="a mistake")
        assert problem(refused) == (409, "not-on-sale")
        assert refused.json()["state"] == state


def bounded(allowance: int, **rules: Any) -> SkuSettings:
    oversell = Oversell(policy="bounded", allowance=allowance)
    return SkuSettings(**{"title": "Ticket", "total": 10, "shards": 4, "oversell": oversell, **rules}).checked()


async def shares(world: World, column: str) -> list[int]:
    return [row[0] for row in await world.pool.fetch(f"SELECT {column} FROM stock.sub_counters ORDER BY shard")]


async def test_an_allowance_is_spread_as_evenly_as_the_stock(world: World) -> None:
    await world.stock.put_sku("ticket", bounded(6), "operator:test")
    assert await shares(world, "total") == [3, 3, 2, 2]
    assert await shares(world, "allowance") == [2, 2, 1, 1]
    assert await world.counts() == (16, 0, 0)
    assert await world.faults() == []


async def test_beyond_the_total_no_more_is_given_than_the_allowance(world: World) -> None:
    await world.stock.put_sku("ticket", bounded(6), "operator:test")
    words = codes(await asyncio.gather(*(world.reserve(Line("ticket", 1 + n % 2)) for n in range(30))))
    assert words.count("done") > 0
    while codes([await world.reserve(Line("ticket", 1))]) == ["done"]:
        pass
    (level,) = await world.stock.levels()
    assert (level.held, level.available, level.backordered) == (16, 0, 6)
    assert await world.pool.fetchval("SELECT sum(backordered) FROM stock.holds") == 6
    assert await world.faults() == []


async def test_an_allowance_falls_to_what_was_given_beyond_the_total_and_no_further(world: World) -> None:
    await world.stock.put_sku("ticket", bounded(6), "operator:test")
    for _ in range(13):
        await world.hold()
    refused = await world.stock.put_sku("ticket", bounded(2), "operator:test")
    assert isinstance(refused, Refused)
    assert (refused.code, refused.facts["held"], refused.facts["allowance"]) == ("below-commitments", 13, 6)
    assert codes([await world.stock.put_sku("ticket", bounded(3), "operator:test")]) == ["done"]
    assert await world.counts() == (0, 13, 0)
    assert codes([await world.stock.put_sku("ticket", bounded(5, total=12), "operator:test")]) == ["done"]
    assert await world.counts() == (4, 13, 0)
    assert await world.faults() == []
    verbs = await world.pool.fetch("SELECT DISTINCT verb FROM stock.ledger WHERE allowance_delta <> 0 ORDER BY 1")
    assert [row["verb"] for row in verbs] == ["allow", "create"]


async def test_a_total_never_falls_further_below_what_is_given(world: World) -> None:
    await world.stock.put_sku("ticket", bounded(6), "operator:test")
    sku = await world.stock.find_sku("ticket")
    assert sku is not None
    for _ in range(13):
        await world.hold()
    assert codes([await adjust(world, sku, change("reduce", 1))]) == ["below-commitments"]
    assert codes([await adjust(world, sku, change("increase", 1))]) == ["done"]
    assert codes([await adjust(world, sku, change("reduce", 1, "accept"))]) == ["done"]
    (level,) = await world.stock.levels()
    assert (level.total, level.backordered) == (11, 2)
    assert await world.faults() == []


async def test_an_allowance_moves_where_it_is_missing(world: World) -> None:
    await world.stock.put_sku("ticket", bounded(8), "operator:test")
    holds = [await world.hold() for _ in range(14)]
    for hold in holds[:9]:
        await world.stock.release(hold.name, hold.fence, "shop:box")
    sku = await world.stock.find_sku("ticket")
    assert sku is not None
    await world.stock.rebalance(sku.id, 0)
    assert sum(await shares(world, "greatest(total - held - sold, 0)")) == 5, "units lie idle beside a backorder"
    assert await world.stock.rebalance(sku.id, 0) == 0
    assert codes([await world.reserve(Line("ticket", 13))]) == ["done"]
    assert await world.faults() == []


async def test_oversell_settings_that_cannot_hold_are_refused_and_defaults_are_shown(counter: Counter) -> None:
    bad: list[dict[str, Any]] = [
        {"oversell": {"policy": "forbid", "allowance": 1}},
        {"oversell": {"policy": "bounded", "allowance": -1}},
        {"oversell": {"policy": "unbounded"}},
        {"oversell": {"policy": "bounded", "colour": "red"}},
        {"oversell": None},
        {"strategy": "naive"},
        {
            "kind": "seated",
            "total": 1,
            "oversell": {"policy": "bounded"},
            "seats": [{"seat": "A-1", "section": "s", "row": "A", "number": 1}],
        },
    ]
    for settings in bad:
        response = await counter.api.put(
            "/admin/skus/ticket", json={"title": "T", "total": 5, **settings}, headers=counter.operator
        )
        assert problem(response) == (422, "invalid"), settings
    plain = await counter.api.put("/admin/skus/ticket", json={"title": "T", "total": 5}, headers=counter.operator)
    assert plain.json()["oversell"] == {"policy": "forbid", "allowance": 0}
    assert plain.json()["strategy"] == "batched"
    wished = {"title": "T", "total": 5, "strategy": "sharded", "oversell": {"policy": "bounded", "allowance": 3}}
    for _ in range(2):
        put = await counter.api.put("/admin/skus/ticket", json=wished, headers=counter.operator)
        assert (put.status_code, put.json()["oversell"], put.json()["strategy"]) == (200, wished["oversell"], "sharded")
    moved = await counter.world.pool.fetchval("SELECT count(*) FROM stock.ledger WHERE verb = 'allow'")
    assert moved == 1, "the same settings twice change nothing"


async def test_every_new_verb_leaves_books_that_replay(counter: Counter) -> None:
    world = counter.world
    await world.stock.put_sku("ticket", bounded(4), "operator:test")
    sku = await world.stock.find_sku("ticket")
    assert sku is not None
    sold = held(await world.reserve(Line("ticket", 12)))
    assert codes([await world.confirm(sold)]) == ["done"]
    for body in (change("increase", 5), change("recount", 14), change("reduce", 2), change("reduce", 9, "accept")):
        assert codes([await adjust(world, sku, body)]) == ["done"]
    assert codes([await world.stock.put_sku("ticket", bounded(1, total=20), "operator:test")]) == ["done"]
    assert await world.faults() == []
    (level,) = await world.stock.levels()
    now = await world.pool.fetchval("SELECT clock_timestamp()")
    response = await counter.api.get("/admin/skus/ticket", params={"as_of": now.isoformat()}, headers=counter.operator)
    figures = response.json()
    assert (figures["total"], figures["allowance"], figures["sold"], figures["available"]) == (20, 1, 12, 9)
    assert figures["available"] == level.available
