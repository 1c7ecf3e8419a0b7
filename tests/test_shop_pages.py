"""The shop's pages without JavaScript: a person buys, changes their mind, clicks twice, and is told why not."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from chassis.database import Pool
from chassis.settings import Settings
from tests.shop_floor import Floor, open_floor


@pytest.fixture
async def floor(settings: Settings, pool: Pool, tmp_path: Path) -> AsyncIterator[Floor]:
    async with open_floor(settings, pool, tmp_path, "ticket", "hall") as floor:
        await floor.counter.world.fungible("ticket", total=3, shards=2)
        await floor.counter.world.seated("hall", rows=2, seats=3)
        yield floor


class Browser:
    """Somebody with a pass who reads pages and fills in the forms that are on them."""

    def __init__(self, floor: Floor, name: str = "ann") -> None:
        self._web = floor.web
        self._headers = floor.buyer(name) | {"Accept": "text/html"}
        self.page = ""

    async def open(self, path: str) -> httpx.Response:
        return self._read(await self._web.get(path, headers=self._headers, follow_redirects=True))

    async def send(self, action: str, **changed: str | list[str]) -> httpx.Response:
        """Send the page's form for `action` with its own hidden fields and what was filled in."""
        form = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', self.page, re.DOTALL)
        assert form is not None, f"no form for {action} on {self.page}"
        hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0]))
        data = {**hidden, **changed}
        return self._read(await self._web.post(action, data=data, headers=self._headers, follow_redirects=True))

    def _read(self, response: httpx.Response) -> httpx.Response:
        self.page = response.text
        return response


async def test_a_person_buys_a_ticket(floor: Floor) -> None:
    ann = Browser(floor)
    await ann.open("/")
    assert "<strong>3</strong> of 3 free" in ann.page
    basket = await ann.send("/buy", quantity="2")
    assert basket.status_code == 200 and "2 tickets" in ann.page and "data-seconds-left" in ann.page
    paid = await ann.send(f"{basket.url.path}/pay", card="ok")
    assert paid.url.path.startswith("/paid/") and "These are yours" in ann.page
    assert await floor.counter.world.counts() == (1, 0, 2)
    await ann.open(basket.url.path)
    assert "These are yours" in ann.page


async def test_a_person_chooses_seats(floor: Floor) -> None:
    ann, bob = Browser(floor, "ann"), Browser(floor, "bob")
    for person in (ann, bob):
        await person.open("/")
        await person.open("/seats/hall?section=stalls")
        assert person.page.count('name="seat"') == 6 and person.page.count(" checked>") == 1
    await ann.send("/buy", seat=["A-1", "A-2"])
    assert "seats A-1, A-2" in ann.page
    refused = await bob.send("/buy", seat=["A-2"])
    assert refused.status_code == 409 and "Somebody was faster" in bob.page


async def test_the_same_form_sent_twice_is_one_basket(floor: Floor) -> None:
    ann = Browser(floor)
    await ann.open("/")
    page = ann.page
    first = await ann.send("/buy", quantity="1")
    ann.page = page
    second = await ann.send("/buy", quantity="1")
    assert first.url == second.url
    assert await floor.counter.world.counts() == (2, 1, 0)
    await ann.open("/")
    assert ann.page.count('<a href="/basket/') == 1


async def test_a_basket_is_given_back(floor: Floor) -> None:
    ann = Browser(floor)
    await ann.open("/")
    basket = await ann.send("/buy", quantity="1")
    await ann.send(f"{basket.url.path}/cancel")
    assert await floor.counter.world.counts() == (3, 0, 0)
    await ann.open(basket.url.path)
    assert "was given back" in ann.page


async def test_a_basket_whose_time_ran_out_says_so(floor: Floor) -> None:
    ann = Browser(floor)
    await ann.open("/")
    basket = await ann.send("/buy", quantity="1")
    page = ann.page
    await floor.counter.world.expire()
    await ann.open(basket.url.path)
    assert "ran out" in ann.page
    ann.page = page
    late = await ann.send(f"{basket.url.path}/pay", card="ok")
    assert late.status_code == 409 and "Nothing was charged" in ann.page


async def test_a_declined_card_is_told_in_words(floor: Floor) -> None:
    ann = Browser(floor)
    await ann.open("/")
    basket = await ann.send("/buy", quantity="1")
    declined = await ann.send(f"{basket.url.path}/pay", card="declined")
    assert declined.status_code == 402 and "declined" in ann.page


async def test_sold_out_and_foreign_baskets_are_pages_not_documents(floor: Floor) -> None:
    ann, bob = Browser(floor, "ann"), Browser(floor, "bob")
    await ann.open("/")
    await bob.open("/")
    basket = await ann.send("/buy", quantity="3")
    assert (await bob.send("/buy", quantity="1")).status_code == 409
    assert "Everything is sold or held" in bob.page
    assert (await bob.open(basket.url.path)).status_code == 404
    assert "<html" in bob.page


@pytest.mark.parametrize(
    "fields", [{"quantity": "0"}, {"quantity": "1e3"}, {"quantity": "٣"}, {"quantity": "99"}, {"key": ""}]
)
async def test_a_form_filled_with_nonsense_is_refused_in_words(floor: Floor, fields: dict[str, str]) -> None:
    ann = Browser(floor)
    await ann.open("/")
    refused = await ann.send("/buy", **{"quantity": "1", **fields})
    assert refused.status_code == 400 and "<html" in ann.page
    assert await floor.counter.world.counts() == (3, 0, 0)


async def test_pages_forbid_what_they_do_not_need(floor: Floor) -> None:
    page = await Browser(floor).open("/")
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert page.headers["Cache-Control"] == "no-store"
    assert '<html lang="en">' in page.text and "<script>" not in page.text and "style=" not in page.text
    for name in ("shop.css", "basket.js"):
        assert (await floor.web.get(f"/static/{name}")).status_code == 200


async def test_whoever_did_not_come_through_the_gate_is_sent_to_the_line(floor: Floor) -> None:
    answer = await floor.web.get("/", headers={"Accept": "text/html"})
    assert answer.status_code == 401 and "join the line" in answer.text
