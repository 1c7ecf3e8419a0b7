"""The waiting page in plain HTML: every state in words, forms that work without a script, nothing from elsewhere."""

import io
import re
from importlib.resources import files

import httpx
import pytest
from babel.messages.extract import extract
from babel.messages.pofile import read_po

from admission.languages import NAMES, WORDS, choose, languages
from admission.redis_bond import RedisBond
from admission.stock_teller import Load, StockTeller
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
            return 'data-state="called"' in (await world.http.get("/rooms/onsale", headers=HTML)).text

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
    ("low", "high", "english", "german"),
    [
        (0, 30, "less than a minute", "weniger als eine Minute"),
        (0, 61, "up to 2 minutes", "bis zu 2 Minuten"),
        (120, 200, "2 to 4 minutes", "2 bis 4 Minuten"),
        (3_000, 7_300, "up to 3 hours", "bis zu 3 Stunden"),
        (4_000_000, 8_000_000, "1,111 to 2,223 hours", "1.111 bis 2.223 Stunden"),
    ],
)
def test_a_wait_is_told_as_a_range_in_the_readers_language(low: int, high: int, english: str, german: str) -> None:
    """C-28: waits only in English."""
    assert languages()["en"].wait(low, high) == english
    assert languages()["de"].wait(low, high) == german


def test_every_word_of_the_page_is_translated() -> None:
    folder = files("admission")
    words = set(WORDS.values())
    with folder.joinpath("templates", "room.html").open("rb") as template:
        words |= {str(found[1]) for found in extract("jinja2.ext:babel_extract", template)}
    assert len(words) > 70
    for name in NAMES:
        if name == "en":
            continue
        text = folder.joinpath("locale", name, "LC_MESSAGES", "messages.po").read_bytes()
        catalog = read_po(io.BytesIO(text), locale=name)
        told = {str(message.id): str(message.string) for message in catalog if message.id and not message.fuzzy}
        assert set(told) == words
        for english, other in told.items():
            assert other, english
            assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", other)), english


@pytest.mark.parametrize(
    ("asked", "kept", "accepted", "name"),
    [
        (None, None, "", "en"),
        (None, None, "de-AT,de;q=0.9,en;q=0.8", "de"),
        (None, None, "fr, en;q=0.5, de;q=0.7", "de"),
        (None, None, "de;q=0, fr", "en"),
        ("de", None, "en", "de"),
        ("xx", "de", "en", "de"),
        (None, None, ",;q=,de;q=9" * 1_000, "en"),
    ],
)
def test_a_reader_gets_the_language_that_was_asked_for_or_is_preferred(
    asked: str | None, kept: str | None, accepted: str, name: str
) -> None:
    assert choose(asked, kept, accepted) == name


async def test_the_page_speaks_the_readers_language_and_keeps_the_choice(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", paused=True)
        german = await world.http.get("/rooms/onsale", headers={**HTML, "Accept-Language": "de-DE,de;q=0.9"})
        assert '<html lang="de">' in german.text
        assert "Anstellen" in german.text
        assert "Accept-Language" in german.headers["vary"]
        chosen = await world.http.get("/rooms/onsale?lang=de&return=/shop", headers=HTML)
        assert 'href="?return=%2Fshop&amp;lang=en"' in chosen.text
        await send(world, "tickets", {})
        waiting = await world.http.get("/rooms/onsale", headers=HTML)
        assert "Sie stehen in der Schlange" in waiting.text
        assert "sobald es weitergeht" in waiting.text, "C-31: a paused line still says what a place takes"


async def test_joining_twice_at_the_same_moment_is_joining_once(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=60_000)
        await world.http.get("/rooms/onsale", headers=HTML)
        fresh = httpx.Cookies(world.http.cookies)
        places = set()
        for _ in range(2):  # what a double click, two tabs or a lost answer send: the same cookies, twice
            world.http.cookies = httpx.Cookies(fresh)
            joined = await send(world, "tickets", {})
            assert "joined=1" not in joined.headers["location"]
            place = await world.http.get("/rooms/onsale/place")
            places.add(place.json()["place"])
        assert places == {1}
        assert (await world.status())["issued"] in (0, 1)
        await until(lambda: _is(world, "issued", 1), "one place was given")


async def test_joining_again_twice_is_one_new_place_and_an_old_page_costs_none(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=1)
        await world.http.get("/rooms/onsale", headers=HTML)
        await send(world, "tickets", {})
        page = await world.http.get("/rooms/onsale", headers=HTML)
        found = re.search(r'name="again" value="([^"]+)"', page.text)
        assert found is not None
        old, tickets = httpx.Cookies(world.http.cookies), []
        for _ in range(2):
            world.http.cookies = httpx.Cookies(old)
            await send(world, "tickets", {"again": found[1]})
            tickets.append((await world.http.get("/rooms/onsale/place")).json()["place"])
        assert tickets == [2, 2]
        await send(world, "tickets", {"again": found[1]})  # the old page's button, pressed once more
        assert (await world.http.get("/rooms/onsale/place")).json()["place"] == 2


async def test_a_browser_without_cookies_is_told_why_it_cannot_keep_a_place(settings: Settings, pool: Pool) -> None:
    """C-23: cookies off, never admitted, no explanation."""
    async with line_world(settings, pool) as world:
        await world.put()
        joined = await send(world, "tickets", {"return": "/shop"})
        world.http.cookies.clear()
        address = joined.headers["location"].removeprefix("/.fairgate")
        page = await world.http.get(address, headers=HTML)
        assert "keeps no cookies for this site" in page.text


async def test_the_whole_page_is_small_and_brings_everything_along(settings: Settings, pool: Pool) -> None:
    """C-29: what the page needs must not be queued itself."""
    async with line_world(settings, pool) as world:
        await world.put(message="x" * 500, title="y" * 120)
        await world.http.get("/rooms/onsale", headers=HTML)
        await send(world, "tickets", {"return": "/shop"})
        for language in NAMES:
            page = await world.http.get("/rooms/onsale", headers={**HTML, "Accept-Language": language})
            assets = re.findall(r'(?:href|src)="(/[^"]+)"', page.text)
            assert len(assets) == 2
            sizes = [len((await world.http.get(asset.removeprefix("/.fairgate"))).content) for asset in assets]
            print(f"{language}: {len(page.content)} bytes of HTML, {sizes} bytes of style and script")
            assert len(page.content) + sum(sizes) < 30_000


async def test_a_sell_out_reaches_every_waiter_with_the_choice_to_stay(settings: Settings, pool: Pool) -> None:
    """C-43: half an hour waited for what was gone. A poll interval is at most 30 seconds and its jitter."""
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=1)
        await world.join()
        await world.http.get("/rooms/onsale", headers=HTML)
        await send(world, "tickets", {})
        bond = RedisBond(settings.redis_url)
        await bond.renew()
        teller = StockTeller(bond, "a stock API")

        async def told() -> bool:
            await teller.tell_stock("onsale", 0, 0, Load(0.0, None))
            return "sold-out" in str((await world.status())["reasons"])

        await until(told, "the document says so")
        await bond.close()
        poll = (await world.status())["poll"]
        assert isinstance(poll, dict)
        assert poll["far_seconds"] * (1 + poll["jitter"]) <= 40
        page = await world.http.get("/rooms/onsale", headers=HTML)
        assert re.search(r'data-reason="sold-out">Everything is sold', page.text)
        assert re.search(r"/leave\"", page.text)


async def _is(world: LineWorld, name: str, value: object) -> bool:
    return (await world.status())[name] == value


async def send(world: LineWorld, action: str, fields: dict[str, str]) -> httpx.Response:
    """Send one of the page's forms."""
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    return await world.http.post(f"/rooms/onsale/{action}", data=fields, headers=headers)
