"""The gate behind real proxies: nobody reaches the shop without a pass, and the shop sees none of our tokens."""

import re
import secrets
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from admission.passes import Pass, PassSigner
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import serving, until
from tests.shop_world import Front, Shop, caddy, guarded_shop, nginx, unused_port

PROXIES = ["nginx", "caddy"]
METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"]
DISGUISES = [
    "/", "//", "/SHOP", "/shop/", "/%73hop", "/shop%2fcheckout", "/a/../shop", "/./shop", "/shop;x=1", "/shop?x=/.fairgate/rooms/",
    "/.fairgate/rooms/../../shop", "/.fairgate/..", "/.fairgate/%2e%2e/shop", "/.FAIRGATE/rooms", "/.fairgatex", "/_fairgate_gate",
]  # fmt: skip
OPERATORS_ONLY = ["/.fairgate/admin/rooms", "/.fairgate/rooms/../admin/rooms", "/.fairgate/%61dmin/rooms", "/.fairgate/metrics", "/.fairgate/readyz", "/.fairgate/gate/onsale?dialect=nginx"]  # fmt: skip


@pytest.mark.parametrize("proxy", PROXIES)
async def test_a_buyer_queues_enters_and_is_queued_again(
    settings: Settings, pool: Pool, tmp_path: Path, proxy: str
) -> None:
    async with guarded_shop(proxy, settings, pool, tmp_path) as front, front.browser() as browser:
        await front.world.put(rate_per_minute=60_000, pass_seconds=5, renew=False)
        queued = await browser.get("/seats?row=A")
        assert queued.status_code == 302
        assert queued.headers["cache-control"] == "no-store"
        page = await browser.get(queued.headers["location"])
        assert page.status_code == 200
        assert "Join the line" in page.text
        joined = await submit(browser, page, "tickets")
        await enter(browser, joined.headers["location"])
        bought = await browser.get("/seats?row=A")
        assert bought.status_code == 200
        assert_clean(bought.json()["headers"])

        async def queued_again() -> bool:
            return (await browser.get("/seats?row=A")).status_code == 302

        await until(queued_again, "the pass expires")


@pytest.mark.parametrize("proxy", PROXIES)
async def test_a_buyer_who_shops_on_keeps_the_slot_and_gets_a_longer_pass(
    settings: Settings, pool: Pool, tmp_path: Path, proxy: str
) -> None:
    async with guarded_shop(proxy, settings, pool, tmp_path) as front:
        await front.world.put(rate_per_minute=60_000, pass_seconds=30)
        token = await front.world.admitted(await front.world.join())
        sent = {"Cookie": f"fairgate-pass-onsale={token}"}
        first = await raw(front, "GET", "/shop", sent)
        assert (first.status_code, first.headers.get("set-cookie")) == (200, None)
        longer: list[httpx.Response] = []

        async def renewed() -> bool:
            answer = await raw(front, "GET", "/shop", sent)
            assert answer.status_code == 200
            longer.extend([answer] if "set-cookie" in answer.headers else [])
            return bool(longer)

        await until(renewed, "a longer pass is given")
        given = longer[0].headers["set-cookie"].partition("=")[2].partition(";")[0]
        assert given != token
        assert longer[0].json()["headers"]["fairgate-pass"] == given


@pytest.mark.parametrize("proxy", PROXIES)
async def test_nothing_reaches_the_shop_without_a_pass(
    settings: Settings, pool: Pool, tmp_path: Path, proxy: str
) -> None:
    async with guarded_shop(proxy, settings, pool, tmp_path) as front:
        await front.world.put(rate_per_minute=60_000)
        buyer = await front.world.join()
        token = await front.world.admitted(buyer)
        forged = PassSigner("k", Ed25519PrivateKey.generate(), "us").sign(Pass("onsale", "s", "j", 1, 2**40))
        shown = ["", forged, token[:-8] + "AAAAAAAA", buyer.ticket, "a.b.c"]
        for method in METHODS:
            for value in shown:
                answer = await raw(front, method, "/shop", {"Fairgate-Pass": value, "Fairgate-Buyer": "me"})
                assert answer.status_code in (302, 429), (method, value)
        for path in DISGUISES:
            answer = await raw(front, "GET", path, {"Accept": "application/json"})
            assert answer.status_code in (301, 308, 400, 404, 405, 422, 429), path
        for path in OPERATORS_ONLY:
            assert (await raw(front, "GET", path, {})).status_code in (400, 404, 429), path
        program = await raw(front, "POST", "/shop", {"Accept": "application/json"})
        assert program.status_code == 429
        assert program.json()["code"] == "queue"
        assert "retry-after" in program.headers
        assert front.shop.asked == []


@pytest.mark.parametrize("proxy", PROXIES)
async def test_the_shop_sees_the_gates_words_and_none_of_our_tokens(
    settings: Settings, pool: Pool, tmp_path: Path, proxy: str
) -> None:
    async with guarded_shop(proxy, settings, pool, tmp_path) as front:
        await front.world.put(rate_per_minute=60_000)
        buyer = await front.world.join()
        token = await front.world.admitted(buyer)
        cookies = "; ".join(
            ["basket=7", f"fairgate-pass-onsale={token}", f"fairgate-ticket-onsale={buyer.ticket}"]
            + [f"__Host-fairgate-secret-room{number}={buyer.secret}" for number in range(2)]
            + [f"FAIRGATE-secret-onsale={buyer.secret}", "theme=dark"]
        )
        sent = {
            "Cookie": cookies,
            "Fairgate-Buyer": "somebody-else",
            "Fairgate-Ticket": buyer.ticket,
            "Fairgate-Secret": buyer.secret,
        }
        for method in ("GET", "POST"):
            answer = await raw(front, method, "/shop", sent, content=b"x" * 1000 if method == "POST" else b"")
            assert answer.status_code == 200
            headers = answer.json()["headers"]
            assert_clean(headers)
            assert headers["fairgate-buyer"] == buyer.ticket_id
            assert headers["fairgate-pass"] == token
            assert "basket=7" in headers["cookie"]
            assert "theme=dark" in headers["cookie"]
            assert answer.json()["body"] == (1000 if method == "POST" else 0)


async def test_more_cookies_than_nginx_can_take_out_are_all_withheld(
    settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    async with guarded_shop("nginx", settings, pool, tmp_path) as front:
        await front.world.put(rate_per_minute=60_000)
        token = await front.world.admitted(await front.world.join())
        many = "; ".join(f"fairgate-secret-room{number}=s" for number in range(9))
        answer = await raw(front, "GET", "/shop", {"Cookie": many, "Fairgate-Pass": token})
        assert answer.status_code == 200
        assert "fairgate" not in answer.json()["headers"].get("cookie", "")


@pytest.mark.parametrize("proxy", PROXIES)
async def test_a_return_target_never_leaves_the_shop(
    settings: Settings, pool: Pool, tmp_path: Path, proxy: str
) -> None:
    async with guarded_shop(proxy, settings, pool, tmp_path) as front:
        await front.world.put(rate_per_minute=60_000)
        for target in ("//evil.example/", "https://evil.example/", "/\\evil.example", "/%09/evil.example"):
            async with front.browser() as browser:
                page = await browser.get("/.fairgate/rooms/onsale", params={"return": target})
                joined = await submit(browser, page, "tickets")
                assert_same_origin(joined.headers["location"])
                entered = await enter(browser, joined.headers["location"])
                assert_same_origin(entered.headers["location"])


@pytest.mark.parametrize("proxy", PROXIES)
async def test_who_left_is_out_within_the_poll(settings: Settings, pool: Pool, tmp_path: Path, proxy: str) -> None:
    async with guarded_shop(proxy, settings, pool, tmp_path) as front, front.browser() as browser:
        await front.world.put(rate_per_minute=60_000)
        page = await browser.get("/.fairgate/rooms/onsale?return=/shop")
        joined = await submit(browser, page, "tickets")
        entered = await enter(browser, joined.headers["location"])
        assert entered.headers["location"] == "/shop"
        token = browser.cookies["fairgate-pass-onsale"]
        page = await browser.get("/.fairgate/rooms/onsale")
        assert 'data-state="admitted"' in page.text
        left = await submit(browser, page, "leave")
        assert left.status_code == 303
        assert "fairgate-pass-onsale" not in browser.cookies
        assert (await raw(front, "GET", "/shop", {"Fairgate-Pass": token})).status_code in (302, 429)


@pytest.mark.parametrize("proxy", PROXIES)
async def test_a_dead_gateway_closes_the_shop(tmp_path: Path, proxy: str) -> None:
    shop = Shop()
    url, dead = (f"http://127.0.0.1:{unused_port()}", "http://127.0.0.1:9")
    async with serving(shop.app()) as shop_url:
        start = nginx if proxy == "nginx" else caddy
        async with start(tmp_path, url, {"gateway": dead, "stock": dead, "shop": shop_url}):
            async with httpx.AsyncClient(base_url=url, timeout=10, trust_env=False) as client:
                shown = {"Fairgate-Pass": secrets.token_hex(8)}
                answers = [await client.get(path, headers=shown) for path in ("/shop", "/.fairgate/rooms/onsale")]
                page = await client.get("/shop", headers={**shown, "Accept": "text/html"})
    for answer in (*answers, page):
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.headers["cache-control"] == "no-store"
    assert [answer.json()["code"] for answer in answers] == ["busy", "busy"]
    assert "safe" in page.text
    assert 'http-equiv="refresh"' in page.text
    assert shop.asked == []


async def raw(front: Front, method: str, path: str, headers: dict[str, str], *, content: bytes = b"") -> httpx.Response:
    """A request whose path is sent as it stands."""
    async with httpx.AsyncClient(timeout=10, trust_env=False) as client:
        request = client.build_request(method, front.url, headers=headers, content=content)
        request.url = request.url.copy_with(raw_path=path.encode())
        return await client.send(request)


async def submit(browser: httpx.AsyncClient, page: httpx.Response, action: str) -> httpx.Response:
    """Press the button of the form whose address ends in `action`, as a browser without JavaScript does."""
    form = re.search(rf'<form[^>]*action="([^"]*/{action})"[^>]*>(.*?)</form>', page.text, re.DOTALL)
    assert form is not None, page.text
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[2]))
    assert_same_origin(form[1])
    return await browser.post(form[1], data=fields, headers={"Sec-Fetch-Site": "same-origin"})


async def enter(browser: httpx.AsyncClient, address: str) -> httpx.Response:
    """Reload the waiting page until it is our turn, then go in."""
    entered: list[httpx.Response] = []

    async def our_turn() -> bool:
        page = await browser.get(address)
        if 'data-state="called"' not in page.text:
            return False
        entered.append(await submit(browser, page, "passes"))
        return "fairgate-pass-onsale" in browser.cookies

    await until(our_turn, "it is our turn")
    return entered[-1]


def assert_clean(headers: dict[str, str]) -> None:
    assert "fairgate-ticket" not in headers
    assert "fairgate-secret" not in headers
    assert "fairgate-" not in headers.get("cookie", "").lower()


def assert_same_origin(address: str) -> None:
    parts = urlsplit(address)
    assert (parts.scheme, parts.netloc) == ("", ""), address
    assert address.startswith("/"), address
    assert not address.startswith(("//", "/\\")), address
