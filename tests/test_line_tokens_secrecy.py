"""Nothing that can be redeemed stands in an address, a log, a Location or a public document (C-52)."""

from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from admission.tickets import client_id_of, new_secret
from chassis.database import Pool
from chassis.settings import Settings
from tests.gateways import gateway_process
from tests.line_world import LineWorld

ROOM = "/rooms/onsale"


class Witness:
    """Keeps what others than the two ends of a call may see of it: addresses, Locations, Referers, public documents."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def request(self, request: httpx.Request) -> None:
        self.seen += [str(request.url), request.headers.get("referer", "")]

    async def response(self, response: httpx.Response) -> None:
        self.seen += [response.headers.get(name, "") for name in ("location", "fairgate-location", "etag", "link")]
        if urlsplit(str(response.request.url)).path.endswith("/status"):
            await response.aread()
            self.seen.append(response.text)
        if response.headers.get("content-type", "").startswith("text/html"):
            assert response.headers["referrer-policy"] == "same-origin"
            assert "no-store" in response.headers["cache-control"]


@pytest.mark.timeout(180)
async def test_a_whole_walk_leaves_nothing_redeemable_in_addresses_logs_or_documents(
    settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    witness = Witness()
    async with gateway_process(settings, tmp_path / "gateway.log", log_level="debug") as gateway:
        world = LineWorld(gateway.url, pool, "onsale")
        world.http.event_hooks = {"request": [witness.request], "response": [witness.response]}
        async with world.http as http:
            await world.put(rate_per_minute=60_000, renew=True)
            secrets_shown = await _walk(world)
            await _bad_tokens(http, secrets_shown)
            await world.status()
        await gateway.stop()
        log = gateway.log.read_text()
    assert log
    for name, secret in secrets_shown:
        for text in (*witness.seen, log):
            assert secret not in text, name
            assert secret[8:40] not in text, name


async def _walk(world: LineWorld) -> list[tuple[str, str]]:
    """Two buyers, one by programs' calls and one by forms, from joining to leaving; gives all that was redeemable."""
    http = world.http
    buyer = await world.join()
    await world.place(buyer)
    token = await world.admitted(buyer)
    await http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": token, "X-Original-Uri": "/seats"})
    code = (await http.post(f"{ROOM}/recovery", headers=buyer.headers)).json()["code"]
    await http.get(ROOM, headers={**buyer.headers, "Accept": "text/html"})
    secret = new_secret()
    answer = await http.post(f"{ROOM}/recovered", json={"code": code, "client_id": client_id_of(secret)})
    assert answer.status_code == 201
    ticket = answer.json()["ticket"]
    found = [("secret", buyer.secret), ("ticket", buyer.ticket), ("pass", token), ("code", code)]
    found += [("new secret", secret), ("new ticket", ticket)]
    await http.post(f"{ROOM}/tickets", data={"return": "/seats"}, headers={"Referer": f"{world.url}{ROOM}"})
    shown = await http.post(f"{ROOM}/recovery", data={"x": ""})
    typed = shown.text.partition('id="code">')[2].partition("<")[0]
    assert len(typed) == 14
    cookies = {name: value for name, value in http.cookies.items() if value}
    found += [("code by form", typed), *cookies.items()]
    http.cookies.clear()
    await http.post(f"{ROOM}/recovered", data={"code": typed, "return": "/seats", "attempt": "a"})
    await http.post(f"{ROOM}/recovered", data={"code": typed, "return": "/seats", "attempt": "b"})
    await http.post(f"{ROOM}/passes", data={"return": "/seats"})
    found += [(name, value) for name, value in http.cookies.items() if value]
    await http.post(f"{ROOM}/leave", data={"x": ""})
    http.cookies.clear()
    left = await http.delete(f"{ROOM}/passes", headers={"Fairgate-Pass": token})
    assert left.status_code == 204
    return found


async def _bad_tokens(http: httpx.AsyncClient, found: list[tuple[str, str]]) -> None:
    """Every token in every wrong place, cut, and to calls that do not exist."""
    for _, secret in found:
        for shown in (secret, secret[:-1], secret + "x"):
            headers = {"Fairgate-Ticket": shown, "Fairgate-Pass": shown, "Fairgate-Secret": shown}
            headers["Authorization"] = f"Bearer {shown}"
            headers["Cookie"] = f"fairgate-pass-onsale={shown}; fairgate-ticket-onsale={shown}"
            for method, address in (
                ("GET", f"{ROOM}/place"),
                ("POST", f"{ROOM}/passes"),
                ("GET", "/gate/onsale?dialect=caddy"),
                ("GET", "/nowhere"),
                ("GET", "/admin/signing-keys"),
            ):
                assert (await http.request(method, address, headers=headers)).status_code < 500
            answer = await http.post(f"{ROOM}/recovered", json={"code": shown, "client_id": shown})
            assert answer.status_code < 500
            assert secret not in answer.text
