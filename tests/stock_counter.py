"""The stock API as callers meet it: the real app on a fresh database, with keys of each role and passes of any room."""

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from admission.keyring import Keyring
from admission.passes import Pass
from chassis.database import Pool
from chassis.keys import ApiKeys, Role
from chassis.settings import Settings
from counters.app import create
from tests.stock_world import World


@dataclass(frozen=True, slots=True)
class Counter:
    """One running stock API; `api` sends what it is told and nothing more."""

    api: httpx.AsyncClient
    world: World
    keyring: Keyring
    shop: Mapping[str, str]
    other_shop: Mapping[str, str]
    operator: Mapping[str, str]

    def pass_for(self, subject: str = "ann", room: str = "onsale", *, age: int = 0, identity: str | None = None) -> str:
        """A pass that was issued `age` seconds ago and lasts ten minutes."""
        now = int(time.time())
        return self.keyring.signer.sign(Pass(room, subject, secrets.token_hex(8), now - age, now - age + 600, identity))

    def buyer(self, subject: str = "ann", room: str = "onsale", *, age: int = 0) -> dict[str, str]:
        """The header that a buyer shows."""
        return {"Fairgate-Pass": self.pass_for(subject, room, age=age)}

    async def reserve(
        self, who: Mapping[str, Any], *lines: dict[str, Any], key: str | None = None, **fields: Any
    ) -> httpx.Response:
        """POST /v1/holds with a key of its own unless one is given."""
        headers = {"Idempotency-Key": key or secrets.token_hex(8), **who}
        return await self.api.post("/v1/holds", json={"lines": list(lines), **fields}, headers=headers)

    async def hold(self, who: Mapping[str, str], *lines: dict[str, Any], **fields: Any) -> dict[str, Any]:
        """A hold that must be granted; one unit of `ticket` unless told otherwise."""
        response = await self.reserve(who, *(lines or ({"sku": "ticket", "quantity": 1},)), **fields)
        assert response.status_code == 201, response.text
        document: dict[str, Any] = response.json()
        return document

    async def on_hold(
        self, who: Mapping[str, str], hold: Mapping[str, Any], verb: str, *, key: str | None = None, **fields: Any
    ) -> httpx.Response:
        """A verb on a hold, with its fence unless another is given."""
        headers = {"Idempotency-Key": key or secrets.token_hex(8), **who}
        body = {"fence": hold["fence"], **fields}
        return await self.api.post(f"/v1/holds/{hold['id']}/{verb}", json=body, headers=headers)


@contextlib.asynccontextmanager
async def open_counter(settings: Settings, pool: Pool) -> AsyncIterator[Counter]:
    """The app with its lifespan on, and somebody of every kind."""
    keyring = Keyring(pool, settings.master_key_bytes, "http://127.0.0.1:8000/.fairgate")
    await keyring.refresh()
    keys = ApiKeys(pool)
    clients: tuple[tuple[str, Role], ...] = (("box", "shop"), ("other", "shop"), ("ops", "operator"))
    who = {name: {"Authorization": f"Bearer {await keys.create(name, role)}"} for name, role in clients}
    app = create(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://stock") as api:
            yield Counter(api, World(pool), keyring, who["box"], who["other"], who["ops"])


def problem(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a problem document."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert response.headers["cache-control"] == "no-store"
    return response.status_code, response.json()["code"]
