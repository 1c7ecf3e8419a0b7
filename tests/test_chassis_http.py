"""The HTTP shell: whatever a caller sends ends in an answer or a problem document, never in a traceback."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.answer import Answer
from chassis.direct import DirectRoutes
from chassis.hot import Asked, HotCall
from chassis.http import json_response, read_json
from chassis.problems import PROBLEMS, Problem, busy
from chassis.settings import Settings
from chassis.shell import create_app


class Line(msgspec.Struct, forbid_unknown_fields=True):
    quantity: int


class Order(msgspec.Struct, forbid_unknown_fields=True):
    lines: list[Line]


async def order(request: Request) -> Response:
    body = await read_json(request, Order)
    return json_response({"units": sum(line.quantity for line in body.lines)})


async def broken(_request: Request) -> Response:
    raise RuntimeError("a bug with fgk_0123456789ab_secretsecretsecret in it")


async def away(_request: Request) -> Response:
    raise ConnectionRefusedError("no database")


async def overloaded(_request: Request) -> Response:
    raise busy("Too many at once.", retry_after_seconds=7)


async def not_ready() -> None:
    raise ConnectionRefusedError("redis is away")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(
        database_url="postgresql://x/y", redis_url="redis://x", master_key="A" * 43, body_bytes_max=1024
    )
    routes = [
        Route("/order", order, methods=["POST"]),
        Route("/order", order, methods=["PUT"]),
        Route("/broken", broken),
        Route("/away", away),
        Route("/overloaded", overloaded),
    ]
    app = create_app(routes, name="test", settings=settings, checks={"redis": not_ready})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of `response`, checked for what every one must have."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    document: dict[str, Any] = response.json()
    assert document["code"] == code
    assert document["status"] == status
    assert document["detail"]
    assert document["request_id"] == response.headers["x-request-id"]
    return document


async def test_a_good_body_is_read(client: httpx.AsyncClient) -> None:
    response = await client.post("/order", json={"lines": [{"quantity": 2}, {"quantity": 3}]})
    assert response.json() == {"units": 5}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed"),
        (b"{", 400, "malformed"),
        (b"\xff\xfe", 400, "malformed"),
        (b'{"lines": NaN}', 400, "malformed"),
        (b"[]", 422, "invalid"),
        (b'{"lines": [{"quantity": 1.5}]}', 422, "invalid"),
        (b'{"lines": [{"quantity": "1"}]}', 422, "invalid"),
        (b'{"lines": [{"quantity": 1, "price": 0}]}', 422, "invalid"),
        (b'{"lines": [], "x": 1}', 422, "invalid"),
        (b'{"lines": []}' + b" " * 2000, 413, "too-large"),
    ],
)
async def test_a_bad_body_is_a_problem(client: httpx.AsyncClient, body: bytes, status: int, code: str) -> None:
    problem(await client.post("/order", content=body, headers={"content-type": "application/json"}), status, code)


async def test_an_invalid_field_is_pointed_to(client: httpx.AsyncClient) -> None:
    response = await client.post("/order", json={"lines": [{"quantity": 1}, {"quantity": None}]})
    (error,) = problem(response, 422, "invalid")["errors"]
    assert error["pointer"] == "/lines/1/quantity"
    assert "int" in error["reason"]


async def test_another_media_type_is_refused(client: httpx.AsyncClient) -> None:
    problem(
        await client.post("/order", content=b"a=1", headers={"content-type": "text/plain"}),
        415,
        "unsupported-media-type",
    )


async def test_wrong_paths_and_methods_are_problems(client: httpx.AsyncClient) -> None:
    problem(await client.get("/nowhere"), 404, "not-found")
    response = await client.get("/order")
    problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "POST, PUT"


async def test_a_bug_is_a_500_that_tells_the_caller_nothing_but_its_id(client: httpx.AsyncClient) -> None:
    document = problem(await client.get("/broken"), 500, "internal")
    assert "bug" not in document["detail"]


async def test_a_store_that_is_away_is_503_with_retry_after(client: httpx.AsyncClient) -> None:
    response = await client.get("/away")
    problem(response, 503, "busy")
    assert response.headers["retry-after"] == "1"
    assert (await client.get("/overloaded")).headers["retry-after"] == "7"


async def test_a_callers_request_id_is_kept_if_it_is_harmless(client: httpx.AsyncClient) -> None:
    assert (await client.get("/nowhere", headers={"x-request-id": "abc-1"})).headers["x-request-id"] == "abc-1"
    assert (await client.get("/nowhere", headers={"x-request-id": 'a"b\t'})).headers["x-request-id"] != 'a"b\t'


async def test_health_readiness_and_metrics_tell_the_truth(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).json() == {"status": "alive"}
    response = await client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["failed"] == {"redis": "redis is away"}
    families = {family.name for family in text_string_to_metric_families((await client.get("/metrics")).text)}
    assert {"fairgate_http_requests", "fairgate_http_request_seconds"} <= families


def test_every_code_is_an_error_or_a_wait_and_has_a_title() -> None:
    assert all((status == 202 or 400 <= status < 600) and title for status, title in PROBLEMS.values())
    assert Problem("sold-out", "None left.", available=0).status == 409


async def test_the_surplus_is_turned_away_before_it_is_read() -> None:
    """Two calls are under way; a third, whose body never comes, hears 503 at once and the two are served."""
    entered, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def slow(_asked: Asked) -> Answer:
        entered.release()
        await go_on.wait()
        return Answer(200, b"{}")

    settings = Settings(database_url="postgresql://x/y", redis_url="redis://x", master_key="A" * 43)
    app = create_app([], name="test", settings=settings, hot=[HotCall("/slow", slow)], hot_at_once_max=2)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as asking:
        under_way = [asyncio.create_task(asking.post("/slow")) for _ in range(2)]
        for _ in under_way:
            await entered.acquire()
        surplus = await asking.post("/slow", content=_Never())
        assert (surplus.status_code, surplus.json()["code"]) == (503, "busy")
        assert 1 <= int(surplus.headers["retry-after"]) <= 3
        go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*under_way)] == [200, 200]
        assert (await asking.post("/slow")).status_code == 200


class _Never(httpx.AsyncByteStream):
    """A body that must not be asked for."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(1):
            raise AssertionError("the body was read")
        yield b""


async def test_a_route_is_found_directly_or_by_the_router_and_answers_the_same() -> None:
    async def says(request: Request) -> Response:
        return json_response([request.method, request.path_params])

    patterns = ["/plain", "/things/{thing}", "/things/{thing}/parts", "/things/{thing}/parts/{part}"]
    direct = DirectRoutes([Route(pattern, says) for pattern in patterns])
    paths = ["/plain", "/things/a", "/things/a/parts", "/things/a/parts/b", "/things/", "/things//parts", "/plain/"]
    app = Starlette(routes=[Route(pattern, says) for pattern in patterns])
    app.router.redirect_slashes = False
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as asking:
        for path in paths:
            for method in ("GET", "HEAD", "POST"):
                answer = await asking.request(method, path)
                found = direct.find({"method": method, "path": path, "root_path": ""})
                assert found is None or answer.status_code == 200, (method, path)
                if found is not None and method == "GET":
                    assert answer.json() == ["GET", found[1]]
    found_paths = [path for path in paths if direct.find({"method": "GET", "path": path, "root_path": ""})]
    assert found_paths == ["/plain", "/things/a", "/things/a/parts"]
