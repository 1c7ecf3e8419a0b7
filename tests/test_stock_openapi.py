"""The stock's OpenAPI document and docs/api.md describe what the service answers: every call and code, nothing else."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from starlette.routing import Route

from chassis.database import Pool
from chassis.problems import PROBLEMS
from chassis.settings import Settings
from counters.app import create
from counters.openapi import openapi_document
from tests.stock_counter import Counter, open_counter

API_PAGE = Path(__file__).parent.parent / "docs" / "api.md"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document("https://tickets.example/.fairgate")


async def served_calls(settings: Settings) -> set[tuple[str, str]]:
    """The (method, path) pairs that the service serves."""
    app = create(settings)
    routed = {
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    return routed | {("POST", call.path) for call in app.hot}


async def test_the_document_has_every_call_and_no_other(document: dict[str, Any], settings: Settings) -> None:
    described = {
        (method.upper(), path)
        for path, calls in document["paths"].items()
        for method in calls
        if method not in ("parameters", "servers")
    }
    assert described == await served_calls(settings) - {("GET", "/openapi.json")}


def test_every_reference_leads_somewhere_and_every_schema_is_one(document: dict[str, Any]) -> None:
    def references(part: object) -> list[str]:
        if isinstance(part, dict):
            own = [part["$ref"]] if "$ref" in part else []
            return own + [found for value in part.values() for found in references(value)]
        return [found for value in part for found in references(value)] if isinstance(part, list) else []

    for reference in references(document):
        part = document
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_operations_and_path_parameters_are_named(document: dict[str, Any]) -> None:
    operations = []
    for path, calls in document["paths"].items():
        named = {parameter["name"] for parameter in calls.get("parameters", []) if parameter["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), path
        operations += [call["operationId"] for method, call in calls.items() if method not in ("parameters", "servers")]
    assert len(operations) == len(set(operations))


async def test_the_page_has_every_call_of_the_stock(settings: Settings) -> None:
    page = API_PAGE.read_text()
    section = page[page.index("\n## Stock\n") : page.index("\n## Codes\n")]
    listed = {(method, path) for method, path in re.findall(r"^\| `([A-Z]+) (/\S*)` \|", section, re.MULTILINE)}
    assert listed == await served_calls(settings)


def test_the_page_and_the_table_of_codes_are_one_list() -> None:
    section = API_PAGE.read_text().partition("\n## Codes\n")[2]
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \| (.+) \|$", section, re.MULTILINE)
    assert {code: (int(status), title) for code, status, title in rows} == dict(PROBLEMS)
    assert len(rows) == len(PROBLEMS)


class Judge:
    """Holds each answer to what the document says of its call: the status, the shape, and the code of a refusal."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.seen: set[tuple[str, int]] = set()

    async def judge(self, answer: httpx.Response) -> None:
        """An httpx response hook."""
        await answer.aread()
        call = self._call(answer.request)
        said = call["responses"].get(str(answer.status_code))
        assert said is not None, f"{call['operationId']} answers {answer.status_code}: {answer.text}"
        self.seen.add((call["operationId"], answer.status_code))
        media_type = answer.headers.get("content-type", "").partition(";")[0]
        if "content" in said and media_type.endswith("json"):
            schema = {**said["content"][media_type]["schema"], "components": self._document["components"]}
            jsonschema.Draft202012Validator(schema).validate(answer.json())

    def _call(self, request: httpx.Request) -> dict[str, Any]:
        for path, calls in self._document["paths"].items():
            if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), request.url.path) and request.method.lower() in calls:
                call: dict[str, Any] = calls[request.method.lower()]
                return call
        raise AssertionError(f"{request.method} {request.url.path} is not described")


SEAT = {"seat": "A-1", "section": "stalls", "row": "A", "number": 1}
SKUS: dict[str, dict[str, Any]] = {
    "ticket": {"title": "Ticket", "total": 5, "buyer_max": 4},
    "hall": {"title": "Hall", "kind": "seated", "seats": [SEAT]},
}


async def test_answers_and_refusals_are_as_the_document_says(
    document: dict[str, Any], settings: Settings, pool: Pool
) -> None:
    async with open_counter(settings, pool) as counter:
        judge = Judge(document)
        counter.api.event_hooks = {"response": [judge.judge]}
        for name, rules in SKUS.items():
            for who in (counter.operator, counter.operator, counter.shop, {}):
                await counter.api.put(f"/admin/skus/{name}", json=rules, headers=who)
        paying = await walk_holds(counter)
        await walk_sales(counter)
        await walk_desk(counter, paying)
        for path in ("/v1/skus/ticket", "/v1/skus/nothing", "/v1/skus/hall/seats", "/healthz", "/readyz", "/metrics"):
            await counter.api.get(path)
    operations = [call for calls in document["paths"].values() for call in calls.values() if "responses" in call]
    assert {name for name, status in judge.seen if status < 400} == {call["operationId"] for call in operations}


async def walk_holds(counter: Counter) -> dict[str, Any]:
    """Everything that shops and buyers may do to holds, and much that they may not; gives a hold that is paying."""
    units, seats = {"sku": "ticket", "quantity": 2}, {"sku": "hall", "seats": ["A-1"]}
    hold = await counter.hold(counter.shop, units, seats, buyer="ada", key="first")
    await counter.reserve(counter.shop, units, seats, buyer="ada", key="first")
    await counter.reserve(counter.shop, units, buyer="bob", key="first")
    for cart in ([seats], [{"sku": "ticket", "quantity": 4}], [{"sku": "nothing", "quantity": 1}], [], [{"sku": 1}]):
        await counter.reserve(counter.shop, *cart, buyer="bob")
    await counter.reserve(counter.shop, {"sku": "ticket", "quantity": 3}, buyer="ada")
    for stranger in ({}, {"Fairgate-Pass": "forged"}, counter.operator):
        await counter.reserve(stranger, units)
    own = await counter.hold(counter.buyer(), {"sku": "ticket", "quantity": 1})
    for verb in ("extend", "extend", "paying", "release", "confirm", "paying", "release", "extend"):
        for who in (counter.shop, counter.other_shop, counter.buyer(), {}):
            await counter.on_hold(who, own, verb)
            await counter.on_hold(who, own, verb, fence=99)
            await counter.on_hold(who, own, verb, unknown=True)
            await counter.api.get(f"/v1/holds/{own['id']}", headers=who)
    await counter.on_hold(counter.shop, hold, "paying")
    return hold


async def walk_sales(counter: Counter) -> None:
    """A part of a hold is sold, an expired one is taken again, sales are cancelled; and what of it is refused."""
    hold = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 2}, buyer="eve")
    for lines in ([], [{"sku": "ticket", "quantity": 3}], [{"sku": "hall", "seats": ["A-1"]}], [{"sku": "ticket"}]):
        await counter.on_hold(counter.shop, hold, "confirm", lines=lines)
    sale = await counter.on_hold(counter.shop, hold, "confirm", lines=[{"sku": "ticket", "quantity": 1}])
    for who in ({}, counter.operator, counter.other_shop, counter.shop, counter.shop):
        for body in ({}, {"reason": "the show moved"}):
            await counter.api.post(f"/v1/sales/{sale.json()['id']}/cancel", json=body, headers=who)
    await counter.api.get(f"/v1/holds/{hold['id']}", headers=counter.shop)
    late = await counter.hold(counter.shop, {"sku": "ticket", "quantity": 2}, buyer="zoe")
    await counter.world.expire()
    await counter.hold(counter.shop, {"sku": "ticket", "quantity": 2}, buyer="zoe")
    for reacquire in (False, True, "yes"):
        await counter.on_hold(counter.shop, late, "confirm", reacquire=reacquire)


async def walk_desk(counter: Counter, paying: Mapping[str, Any]) -> None:
    """Everything that operators may do, and what becomes of a hold that a person has ended."""
    for path in ("skus", "skus/ticket", "skus/nothing", "audit", "holds?state=paying", "holds?state=odd"):
        await counter.api.get(f"/admin/{path}", headers=counter.operator)
    for outcome in ("paid", "paid", "unpaid"):
        body = {"outcome": outcome, "reason": "the bank says so"}
        await counter.api.post(f"/admin/holds/{paying['id']}/resolve", json=body, headers=counter.operator)
    for verb in ("paying", "confirm", "release", "extend"):
        await counter.on_hold(counter.shop, paying, verb)
    for change in ({"total": 1}, {"shards": 2}):
        await counter.api.put("/admin/skus/ticket", json={**SKUS["ticket"], **change}, headers=counter.operator)
    await walk_books(counter, paying)


async def walk_books(counter: Counter, hold: Mapping[str, Any]) -> None:
    """What sellers change in sale, and what the ledger tells of it."""
    change = {"kind": "reduce", "quantity": 50, "source": "till", "reason": "counted"}
    for key, body in (
        ("a", change),
        ("a", {**change, "if_short": "accept"}),
        ("a", change),
        ("b", {**change, "kind": "?"}),
    ):
        for name in ("ticket", "hall", "nothing"):
            headers = {"Idempotency-Key": key, **counter.operator}
            await counter.api.post(f"/admin/skus/{name}/adjustments", json=body, headers=headers)
    for verb in ("halt", "halt", "resume"):
        await counter.api.post(f"/admin/skus/ticket/{verb}", json={"reason": "a test"}, headers=counter.operator)
    for path in (
        *(
            "skus/ticket/adjustments",
            "skus/ticket/history",
            "skus/ticket/history?limit=0",
            "incidents",
            "incidents?state=?",
        ),
        *(
            "skus/ticket?as_of=2999-01-01T00:00:00Z",
            "skus/ticket?as_of=2001-01-01T00:00:00Z",
            f"holds/{hold['id']}",
            "holds/1",
        ),
    ):
        await counter.api.get(f"/admin/{path}", headers=counter.operator)
    now = datetime.now(UTC).isoformat()
    await counter.api.get("/admin/skus/ticket", params={"as_of": now}, headers=counter.operator)
