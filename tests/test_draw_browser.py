"""The page's JavaScript computes the draw's very bytes, on a secure page and on one without crypto.subtle."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import async_playwright
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from admission.tickets import client_id_of
from chassis.database import Pool
from chassis.settings import Settings
from tests.draw_world import drawn_proof, vectors
from tests.line_world import line_world, serving, soon
from tests.servers import PROJECT
from tests.test_browser_walk import QUIET, browser_path
from tests.test_draw_stages import entered, number_of, proof_of, reaches

INSECURE = "--host-resolver-rules=MAP shop.example 127.0.0.1"


async def blank(_request: Request) -> HTMLResponse:
    return HTMLResponse("<!doctype html><title>blank</title>")


def site() -> Starlette:
    static = StaticFiles(directory=PROJECT / "admission" / "static")
    return Starlette(routes=[Route("/", blank), Mount("/static", static)])


def test_the_documents_vectors_are_what_the_code_computes() -> None:
    page = (Path(PROJECT) / "docs" / "draw.md").read_text()
    shown = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert json.loads(shown[1]) == json.loads(json.dumps(vectors()))


CHECK = """async ({ vectors, proof, path, clientId }) => {
  const draw = window.fairgateDraw;
  const hex = draw.hex;
  const { small, large, million } = vectors;
  const full = (one) => ({ gaps: [], beacon: null, entries: one.client_ids && one.client_ids.length, ...one });
  const places = (one) => Object.keys(one.places).map((entry) => draw.place(full(one), Number(entry)));
  const inclusion = { path: small.path_of_entry_3 };
  const proven = draw.verify({ ...full(small), last_entry: 5, binds: [] }, inclusion, 3, small.client_ids[2]);
  const stolen = draw.verify({ ...full(small), last_entry: 5, binds: [] }, inclusion, 3, small.client_ids[3]);
  return {
    subtle: !!(window.crypto && window.crypto.subtle),
    leaves: small.client_ids.map((client, at) => hex(draw.leaf(small.room, small.epoch, at + 1, client))),
    commitments: [hex(draw.commitment(small)), hex(draw.commitment(large))],
    keys: [small, large, million].map((one) => hex(draw.key(full(one)))),
    places: [places(small), places(large), places(million)],
    proven: [proven.committed, proven.included, proven.place],
    stolen: stolen.included,
    whole: draw.verify(proof, { path }, 2500, clientId),
    changed: draw.verify({ ...proof, secret: "00".repeat(32) }, null, 2500, clientId).committed,
    lengths: [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000].map((n) => hex(draw.sha256(new Uint8Array(n).fill(n)))),
  };
}"""


@pytest.mark.parametrize("host", ["127.0.0.1", "shop.example"])
async def test_the_pages_script_computes_the_same_bytes(host: str) -> None:
    given = vectors()
    small, large, million = (dict(given[name]) for name in ("small", "large", "million"))  # type: ignore[call-overload]
    proof, _ = drawn_proof()
    document = {name: getattr(proof, name) for name in ("room", "epoch", "commitment", "last_entry", "root", "secret", "entries", "beacon_value", "gaps")}  # fmt: skip
    document |= {"beacon": large["beacon"], "binds": ["what it binds"]}
    async with serving(site()) as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=[*QUIET, INSECURE])
        page = await browser.new_page()
        await page.goto(url.replace("127.0.0.1", host))
        await page.add_script_tag(url="/static/draw.js")
        found: dict[str, Any] = await page.evaluate(
            CHECK,
            {"vectors": json.loads(json.dumps(given)), "proof": document, "path": large["path_of_entry_2500"], "clientId": client_id_of("secret 2500")},
        )  # fmt: skip
        await browser.close()
    assert found["subtle"] is (host == "127.0.0.1")
    assert found["leaves"] == small["leaves"]
    assert found["commitments"] == [small["commitment"], large["commitment"]]
    assert found["keys"] == [small["key"], large["key"], million["key"]]
    assert found["places"] == [list(one["places"].values()) for one in (small, large, million)]
    assert found["proven"] == [True, True, small["places"]["3"]]
    assert found["stolen"] is False
    assert (found["whole"]["committed"], found["whole"]["included"]) == (True, True)
    assert found["whole"]["place"] == large["places"]["2500"]
    assert found["changed"] is False
    assert found["lengths"] == [hashlib.sha256(bytes([n % 256]) * n).hexdigest() for n in (0, 1, 55, 56, 63, 64, 65, 119, 120, 1000)]  # fmt: skip


async def test_a_buyers_browser_verifies_its_own_place_at_the_gateway(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, async_playwright() as playwright:
        await world.put(opens_at=soon(3), rate_per_minute=6_000)
        buyers = await entered(world, 4)
        await reaches(world, "drawn")
        assert (await proof_of(world)).entries == 4
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=list(QUIET))
        page = await browser.new_page()
        await page.goto(f"{world.url}/rooms/onsale/status")
        await page.add_script_tag(url="/static/draw.js")
        for buyer in buyers:
            checked = await page.evaluate(
                "([entry, client]) => window.fairgateDraw.check('/rooms/onsale', 1, entry, client)",
                [number_of(buyer), buyer.client_id],
            )
            assert (checked["committed"], checked["included"]) == (True, True)
            assert checked["place"] == (await world.place(buyer))["place"]
            assert "Not the operator" in " ".join(checked["binds"])
        await browser.close()
