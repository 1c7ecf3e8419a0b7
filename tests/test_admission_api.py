"""The gateway's HTTP contract: bad input is refused in words, documents are cacheable, operators' calls need a key."""

import asyncio
import secrets

import httpx
import jsonschema
import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from admission.openapi import openapi_document
from chassis.database import Pool
from chassis.keys import ApiKeys
from chassis.settings import Settings
from tests.line_world import LineWorld, line_world, soon

CLIENT_ID = "A" * 43


async def test_bad_joins_are_refused_in_words(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        address = "/rooms/onsale/tickets"
        wrong: list[tuple[int, str, dict[str, object]]] = [
            (415, "unsupported-media-type", {"content": b"{}"}),
            (400, "malformed", {"content": b"{", "headers": {"Content-Type": "application/json"}}),
            (400, "malformed", {"content": b"\xff\xfe", "headers": {"Content-Type": "application/json"}}),
            (422, "invalid", {"json": {}}),
            (422, "invalid", {"json": []}),
            (422, "invalid", {"json": {"client_id": 7}}),
            (422, "invalid", {"json": {"client_id": "short"}}),
            (422, "invalid", {"json": {"client_id": CLIENT_ID, "proof": "x"}}),
            (422, "invalid", {"json": {"client_id": "\N{SNOWMAN}" * 43}}),
            (413, "too-large", {"json": {"client_id": "A" * 1_000_000}}),
        ]
        for status, code, request in wrong:
            answer = await world.http.post(address, **request)  # type: ignore[arg-type]
            assert (answer.status_code, answer.json()["code"]) == (status, code), request
            assert answer.headers["content-type"] == "application/problem+json"
        unknown = await world.http.post("/rooms/nowhere/tickets", json={"client_id": CLIENT_ID})
        assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")
        method = await world.http.put(address)
        assert (method.status_code, method.headers["allow"]) == (405, "POST")


async def test_a_ticket_without_its_secret_or_of_another_room_claims_nothing(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool, "other") as other:
        await other.put()
        foreign = await other.join()
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        buyer, thief = await world.join(), await world.join()
        address = "/rooms/onsale/passes"
        wrong: list[tuple[int, str, dict[str, str]]] = [
            (401, "ticket-required", {}),
            (403, "ticket-refused", {"Fairgate-Ticket": "nonsense"}),
            (403, "ticket-refused", {"Fairgate-Ticket": "x" * 5_000}),
            (403, "ticket-refused", foreign.headers),
            (401, "secret-required", {"Fairgate-Ticket": buyer.ticket}),
            (403, "secret-refused", {"Fairgate-Ticket": buyer.ticket, "Fairgate-Secret": thief.secret}),
            (403, "secret-refused", {"Fairgate-Ticket": buyer.ticket, "Fairgate-Secret": buyer.client_id}),
        ]
        for status, code, headers in wrong:
            answer = await world.http.post(address, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (status, code)
        token = await world.admitted(buyer)
        as_ticket = await world.http.get("/rooms/onsale/place", headers={"Fairgate-Ticket": token})
        assert as_ticket.status_code == 403
        as_pass = await world.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": buyer.ticket})
        assert as_pass.status_code == 401
        elsewhere = await world.http.get("/gate/other?dialect=nginx", headers={"Fairgate-Pass": token})
        assert elsewhere.status_code == 401


async def test_a_room_tells_when_it_takes_nobody(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(prequeue_at=soon(300), opens_at=soon(600))
        early = await world.http.post("/rooms/onsale/tickets", json={"client_id": CLIENT_ID})
        assert (early.status_code, early.json()["code"], early.json()["reason"]) == (409, "room-closed", "not-yet")
        assert (await world.status())["phase"] == "draft"
    async with line_world(settings, pool, "small") as world:
        await world.put(entries_max=1)
        await world.join()
        full = await world.http.post("/rooms/small/tickets", json={"client_id": CLIENT_ID})
        assert (full.status_code, full.json()["reason"]) == (409, "full")


async def test_the_public_document_is_cacheable_and_carries_no_cookie(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(600), message="Bring patience")
        answer = await world.http.get("/rooms/onsale/status", headers={"Cookie": "fairgate-ticket-onsale=x"})
        assert "s-maxage=1" in answer.headers["cache-control"]
        assert "set-cookie" not in answer.headers
        assert answer.json()["message"] == "Bring patience"
        assert answer.json()["draw"]["secret"] is None
        assert len(answer.json()["draw"]["commitment"]) == 64
        same = await world.http.get("/rooms/onsale/status", headers={"If-None-Match": answer.headers["etag"]})
        assert same.status_code in (200, 304)


async def test_operators_put_rooms_and_get_their_defaults_back(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        keys = ApiKeys(pool)
        operator = {"Authorization": f"Bearer {await keys.create('ops', 'operator')}"}
        shop = {"Authorization": f"Bearer {await keys.create('shop', 'shop')}"}
        address = "/admin/rooms/onsale"
        assert (await world.http.put(address, json={})).status_code == 401
        assert (await world.http.put(address, json={}, headers=shop)).status_code == 403
        assert (await world.http.get(address, headers=operator)).status_code == 404
        opens_at = "2099-01-01T10:00:00.000Z"
        first = await world.http.put(address, json={"new_users_per_minute": 30, "opens_at": opens_at}, headers=operator)
        assert first.status_code == 200
        assert first.json()["rate_per_minute"] == 30
        assert first.json()["turn_seconds"] == 120
        changed_at = await pool.fetchval("SELECT changed_at FROM line.rooms")
        got = await world.http.get(address, headers=operator)
        echoed = {name: value for name, value in got.json().items() if name not in ("name", "epoch")}
        again = await world.http.put(address, json=echoed, headers=operator)
        assert again.json() == first.json() == got.json()
        assert await pool.fetchval("SELECT changed_at FROM line.rooms") == changed_at
        wrong = await world.http.put(address, json={"rate_per_minute": 0}, headers=operator)
        assert wrong.json()["errors"][0]["pointer"] == "/rate_per_minute"
        await world.shows("line", "reachable")
        method = await world.http.put(address, json={**echoed, "method": "fifo"}, headers=operator)
        assert (method.status_code, method.json()["errors"][0]["pointer"]) == (422, "/method")
        bad_name = await world.http.put("/admin/rooms/Caf%C3%A9", json={}, headers=operator)
        assert bad_name.status_code == 422
        listed = await world.http.get("/admin/rooms", headers=operator)
        assert [room["name"] for room in listed.json()["rooms"]] == ["onsale"]


async def test_answers_are_as_openapi_says(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        document = (await world.http.get("/openapi.json")).json()
        assert document == orjson.loads(orjson.dumps(openapi_document(settings.public_url + settings.prefix)))
        buyer = await world.join()
        await world.admitted(buyer)
        key = await ApiKeys(pool).create("ops", "operator")
        answers: list[tuple[str, httpx.Response]] = [
            ("Ticket", await world.http.post("/rooms/onsale/tickets", json={"client_id": buyer.client_id})),
            ("Place", await world.http.get("/rooms/onsale/place", headers=buyer.headers)),
            ("Pass", await world.claim(buyer)),
            ("Status", await world.http.get("/rooms/onsale/status")),
            ("KeySet", await world.http.get("/.well-known/jwks.json")),
            ("Rooms", await world.http.get("/admin/rooms", headers={"Authorization": f"Bearer {key}"})),
            ("Problem", await world.http.get("/rooms/nowhere/status")),
        ]
        for name, answer in answers:
            schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(answer.json())


@pytest.mark.timeout(120)
async def test_whatever_is_sent_never_ends_in_a_5xx(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        token = await world.admitted(buyer)
        loop = asyncio.get_running_loop()
        shown = st.one_of(
            st.binary(max_size=200).map(
                lambda raw: raw.replace(b"\n", b"").replace(b"\r", b"").replace(b"\0", b"").strip()
            ),
            st.sampled_from(
                [buyer.ticket.encode(), token.encode(), buyer.secret.encode(), b"a.b.c", b"fgt1.a.b." + b"A" * 43]
            ),
        )

        @examples(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(_ADDRESSES), shown, shown, shown, st.text(max_size=60))
        def try_it(address: tuple[str, str], ticket: bytes, secret: bytes, granted: bytes, query: str) -> None:
            headers = [(b"fairgate-ticket", ticket), (b"fairgate-secret", secret), (b"fairgate-pass", granted)]
            headers.append((b"cookie", b"fairgate-pass-onsale=" + granted + b"; fairgate-ticket-onsale=" + ticket))
            future = asyncio.run_coroutine_threadsafe(_send(world, address, headers, query), loop)
            assert future.result(10) < 500

        await asyncio.to_thread(try_it)


_ADDRESSES = [
    ("GET", "/rooms/onsale"),
    ("GET", "/rooms/onsale/status"),
    ("GET", "/rooms/onsale/place"),
    ("POST", "/rooms/onsale/tickets"),
    ("POST", "/rooms/onsale/passes"),
    ("DELETE", "/rooms/onsale/passes"),
    ("GET", "/gate/onsale"),
    ("GET", "/gate/%00"),
    ("GET", "/rooms/%2e%2e/status"),
    ("GET", "/static/%2e%2e%2fapp.py"),
    ("PUT", "/admin/rooms/onsale"),
]


async def _send(world: LineWorld, address: tuple[str, str], headers: list[tuple[bytes, bytes]], query: str) -> int:
    method, path = address
    try:
        answer = await world.http.request(
            method, path, params={"dialect": query, "return": query}, headers=headers, json={"client_id": query}
        )
    except httpx.LocalProtocolError:
        return 400  # what cannot be sent cannot hurt
    return answer.status_code


async def test_secrets_are_never_in_a_page_or_an_address(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        token = await world.admitted(buyer)
        headers = {"Accept": "text/html", **buyer.headers}
        page = await world.http.get(f"/rooms/onsale?return=/{secrets.token_hex(4)}", headers=headers)
        assert page.status_code == 200
        for secret in (buyer.secret, buyer.ticket, token):
            assert secret not in page.text


@pytest.mark.parametrize(
    "settings_body",
    [
        {"opens_at": "0001-01-01T00:00:00Z"},
        {"opens_at": "0001-01-01T00:00:00+05:00"},
        {"closes_at": "9999-12-31T23:59:59-05:00"},
        {"title": "\0"},
        {"message": "a\0b"},
        {"skus": ["\0"]},
    ],
)
async def test_a_room_that_postgres_could_not_keep_is_refused_and_stops_no_other(
    settings: Settings, pool: Pool, settings_body: dict[str, object]
) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        key = {"Authorization": f"Bearer {await ApiKeys(pool).create('ops', 'operator')}"}
        answer = await world.http.put("/admin/rooms/bad", json=settings_body, headers=key)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
        assert (await world.http.get("/admin/rooms", headers=key)).status_code == 200
        assert (await world.http.get("/rooms/onsale/status")).status_code == 200


async def test_a_gateway_knows_rooms_and_keys_before_it_answers(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        buyer = await world.join()
        token = await world.admitted(buyer)
    async with line_world(settings, pool) as fresh:
        assert (await fresh.http.get("/rooms/onsale/status")).status_code == 200
        answer = await fresh.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": token})
        assert answer.status_code == 204


async def test_leaving_twice_with_the_pass_alone_is_leaving_once(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        headers = {"Fairgate-Pass": await world.admitted(await world.join())}
        for _ in range(3):
            assert (await world.http.delete("/rooms/onsale/passes", headers=headers)).status_code == 204


async def test_a_claim_that_another_site_sends_with_our_cookies_is_refused(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        buyer = await world.join()
        cookies = f"fairgate-ticket-onsale={buyer.ticket}; fairgate-secret-onsale={buyer.secret}"
        foreign = {"Origin": "http://evil.example", "Cookie": cookies, "Content-Type": "text/plain"}
        answer = await world.http.post("/rooms/onsale/passes", headers=foreign)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign-origin")
