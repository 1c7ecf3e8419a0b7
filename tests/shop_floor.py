"""The demo shop on the real stock API: what the shop's tests share."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import SecretStr

from chassis.database import Pool
from chassis.settings import Settings
from fairgate.shop.app import create
from fairgate.shop.settings import ShopSettings
from tests.stock_counter import Counter, open_counter

INQUIRY_KEY = "an inquiry key of the tests"
Answer = Callable[[httpx.Request], Awaitable[httpx.Response]]


class Wire(httpx.AsyncBaseTransport):
    """The shop's way to the stock. `cut` may lose a request, or its answer after the stock has acted."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self.cut: Callable[[httpx.Request, Answer], Awaitable[httpx.Response]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await (self.cut(request, self._pass_on) if self.cut else self._pass_on(request))

    async def _pass_on(self, request: httpx.Request) -> httpx.Response:
        answer = await self._counter.api.send(request)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


@dataclass(frozen=True, slots=True)
class Floor:
    """One running shop, with the stock behind it; `web` is a visitor without a pass."""

    web: httpx.AsyncClient
    counter: Counter
    wire: Wire

    def buyer(self, name: str = "ann") -> dict[str, str]:
        """What the gate in front would add for a buyer."""
        return {"Fairgate-Buyer": name, "Fairgate-Pass": self.counter.pass_for(name)}

    async def post(self, path: str, body: object, who: str = "ann", key: str = "key-1") -> httpx.Response:
        """A JSON call of one buyer."""
        return await self.web.post(path, json=body, headers=self.buyer(who) | {"Idempotency-Key": key})

    async def hold(
        self, who: str = "ann", key: str = "key-1", sku: str = "ticket", quantity: int = 1
    ) -> dict[str, object]:
        """A hold that must be granted, as the body of later calls."""
        response = await self.post("/api/holds", {"sku": sku, "quantity": quantity}, who, key)
        assert response.status_code == 201, response.text
        return {"hold": response.json()["id"], "fence": response.json()["fence"]}

    async def inquire(self, hold: object, method: str = "GET") -> str:
        """What the reconciler would be told about the hold's payment."""
        headers = {"Authorization": f"Bearer {INQUIRY_KEY}"}
        response = await self.web.request(method, f"/payments/{hold}", headers=headers)
        assert response.status_code == 200, response.text
        state: str = response.json()["state"]
        return state


@contextlib.asynccontextmanager
async def open_floor(settings: Settings, pool: Pool, folder: Path, *skus: str) -> AsyncIterator[Floor]:
    """The shop that sells `skus`, its payments in `folder`; pretend payments take no time unless a card is slow."""
    async with open_counter(settings, pool) as counter:
        wire = Wire(counter)
        shop_settings = ShopSettings(
            stock_url="http://stock",
            stock_key=SecretStr(counter.shop["Authorization"].removeprefix("Bearer ")),
            inquiry_key=SecretStr(INQUIRY_KEY),
            payments_file=folder / "payments.sqlite",
            skus=skus or ("ticket",),
            pay_seconds_min=0,
            pay_seconds_max=0,
        )
        app = create(shop_settings, wire)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url="http://shop") as web:
                yield Floor(web, counter, wire)
