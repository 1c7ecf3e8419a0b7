"""The shop's side of the stock API: one method a call, each safe to repeat, retried a few times when no answer came.

Refusals are answers and come back as they are; only a stock that stays unreachable raises.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from chassis.problems import Problem, busy

AT_ONCE_MAX = 16
ATTEMPTS_MAX = 8
RETRY_SECONDS_MAX = 2.0
TRANSIENT = (502, 503, 504)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the stock answered: a document of the contract, or a problem document with its code."""

    status: int
    document: dict[str, Any]
    replayed: bool = False

    @property
    def granted(self) -> bool:
        return self.status < 300

    @property
    def code(self) -> str:
        """The problem's code; empty when granted."""
        return "" if self.granted else str(self.document.get("code", ""))


class Stock:
    """The stock API as this shop may call it, over one keep-alive client."""

    def __init__(self, client: httpx.AsyncClient, key: str) -> None:
        self._client = client
        self._key = key
        # The client's pool slows down with every request that waits inside it, so they wait out here.
        self._turnstile = asyncio.Semaphore(AT_ONCE_MAX)

    async def reserve(self, lines: list[dict[str, Any]], key: str, buyer_pass: str | None) -> Reply:
        """Hold `lines` for the buyer whose pass is shown; repeating with the same key finds the same hold."""
        headers = {"Idempotency-Key": key} | ({"Fairgate-Pass": buyer_pass} if buyer_pass else {})
        return await self._send("POST", "/v1/holds", {"lines": lines}, headers)

    async def hold(self, hold: str) -> Reply:
        """The hold as it stands now."""
        return await self._send("GET", f"/v1/holds/{hold}")

    async def start_payment(self, hold: str, fence: int) -> Reply:
        """Tell the stock that a payment begins; repeating it never moves the deadline past its bound."""
        return await self._send("POST", f"/v1/holds/{hold}/paying", {"fence": fence})

    async def confirm(self, hold: str, fence: int) -> Reply:
        """Make the hold a sale; the key is the hold's own, so that every repeat finds that one sale."""
        return await self._send("POST", f"/v1/holds/{hold}/confirm", {"fence": fence}, {"Idempotency-Key": hold})

    async def release(self, hold: str, fence: int) -> Reply:
        """Give the units back; releasing twice is one release."""
        return await self._send("POST", f"/v1/holds/{hold}/release", {"fence": fence})

    async def sku(self, sku: str) -> Reply:
        """A SKU's levels."""
        return await self._send("GET", f"/v1/skus/{sku}")

    async def seats(self, sku: str) -> Reply:
        """A seated SKU's map with the state of each seat."""
        return await self._send("GET", f"/v1/skus/{sku}/seats")

    async def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """The stock's answer. Raises Problem busy when none came, or only 503, in ATTEMPTS_MAX attempts."""
        sent = {"Authorization": f"Bearer {self._key}", **(headers or {})}
        content = None
        if body is not None:
            content = orjson.dumps(body)
            sent["Content-Type"] = "application/json"
        for attempt in range(ATTEMPTS_MAX):
            try:
                async with self._turnstile:
                    response = await self._client.request(method, path, content=content, headers=sent)
            except httpx.TransportError:
                response = None  # whether it had an effect is unknown: the same call again finds out
            if response is not None and response.status_code not in TRANSIENT:
                return _reply(response)
            longest = min(RETRY_SECONDS_MAX, 0.1 * 2**attempt)
            await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311 - jitter, not a secret
        raise busy("The stock cannot be reached now. Nothing was lost; try again with the same key.", 2)


def _reply(response: httpx.Response) -> Reply:
    try:
        document = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise Problem("busy", f"The stock answered {response.status_code} with something that is no document.")
    return Reply(response.status_code, document, response.headers.get("Idempotent-Replayed") == "true")
