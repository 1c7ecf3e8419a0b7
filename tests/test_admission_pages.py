"""The waiting page in plain HTML: every state in words, forms that work without a script, nothing from elsewhere."""

import re

import httpx
import pytest

from admission.pages import wait_words
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import LineWorld, line_world, soon, until

HTML = {"Accept": "text/html"}


async def test_the_page_joins_waits_and_goes_in_without_a_script(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000, title="Café <onsale>", message="Doors at nine & not before")
        page = await world.http.get("/rooms/onsale?return=/shop%3Fa=1", headers=HTML)
        assert "Café &lt;onsale&gt;" in page.text
        assert "Doors at nine &amp; not before" in page.text
        assert 'name="return" value="/shop?a=1"' in page.text
        joined = await send(world, "tickets", {"return": "/shop?a=1"})
        assert joined.status_code == 303
        assert joined.headers["location"] == "/.fairgate/rooms/onsale?return=/shop%3Fa%3D1"
        for cookie in joined.headers.get_list("set-cookie"):
            assert "HttpOnly" in cookie
            assert "SameSite=lax" in cookie
            assert "Secure" not in cookie
        ticket = world.http.cookies["fairgate-ticket-onsale"]
        await send(world, "tickets", {})
        assert world.http.cookies["fairgate-ticket-onsale"] == ticket, "a double click keeps the place"

        async def called() -> bool:
            return "It is your turn" in (await world.http.get("/rooms/onsale", headers=HTML)).text

        await until(called, "the buyer is called")
        entered = await send(world, "passes", {"return": "/shop?a=1"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/shop?a=1")
        gate = await world.http.get("/gate/onsale?dialect=nginx")
        assert gate.status_code == 204
        left = await send(world, "leave", {})
        assert left.status_code == 303
        assert not [name for name in world.http.cookies if name.startswith("fairgate-")]
        assert (await world.http.get("/gate/onsale?dialect=nginx")).status_code == 401


async def test_the_page_is_closed_to_foreign_content_and_frames(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(600), queue_status_code=429)
        page = await world.http.get("/rooms/onsale", headers=HTML)
        assert page.status_code == 429
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["cache-control"] == "no-store"
        assert not re.search(r"<script(?![^>]*src=)|style=|\son\w+=|https?://", page.text)
        assert '<html lang="en">' in page.text
        for address in re.findall(r'(?:href|src)="(/[^"]+)"', page.text):
            asset = await world.http.get(address.removeprefix("/.fairgate"))
            assert asset.status_code == 200
            assert "immutable" in asset.headers["cache-control"]


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}]
)
async def test_a_form_from_another_site_changes_nothing(
    settings: Settings, pool: Pool, headers: dict[str, str]
) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        for action in ("tickets", "passes", "leave"):
            answer = await world.http.post(f"/rooms/onsale/{action}", data={"return": "/"}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "foreign-origin")
            assert "set-cookie" not in answer.headers


async def test_over_https_cookies_are_bound_to_this_host(settings: Settings, pool: Pool) -> None:
    settings = settings.model_copy(update={"public_url": "https://shop.example"})
    async with line_world(settings, pool) as world:
        await world.put()
        joined = await send(world, "tickets", {})
        for cookie in joined.headers.get_list("set-cookie"):
            assert cookie.startswith("__Host-fairgate-")
            assert "Secure" in cookie
            assert "Path=/" in cookie
            assert "Domain" not in cookie


async def test_the_gate_refuses_in_each_dialects_words(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        nginx = await world.http.get("/gate/onsale?dialect=nginx", headers={"X-Original-URI": "/seats?row=A"})
        assert nginx.status_code == 401
        assert nginx.headers["fairgate-location"] == "/.fairgate/rooms/onsale?return=/seats%3Frow%3DA"
        caddy = {"X-Forwarded-Uri": "/seats", "X-Forwarded-Method": "GET", **HTML}
        browser = await world.http.get("/gate/onsale?dialect=caddy", headers=caddy)
        assert (browser.status_code, browser.headers["location"]) == (302, "/.fairgate/rooms/onsale?return=/seats")
        program = await world.http.get("/gate/onsale?dialect=caddy", headers={**caddy, "X-Forwarded-Method": "POST"})
        assert (program.status_code, program.json()["code"]) == (429, "queue")
        assert (await world.http.get("/gate/onsale?dialect=other")).status_code == 400


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0, 30, "less than a minute"),
        (0, 61, "up to 2 minutes"),
        (120, 200, "2 to 4 minutes"),
        (60, 60, "less than a minute"),
    ],
)
def test_a_wait_is_told_as_a_range(low: int, high: int, words: str) -> None:
    assert wait_words(low, high) == words


async def send(world: LineWorld, action: str, fields: dict[str, str]) -> httpx.Response:
    """Send one of the page's forms."""
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    return await world.http.post(f"/rooms/onsale/{action}", data=fields, headers=headers)
