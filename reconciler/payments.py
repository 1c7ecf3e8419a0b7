"""Asks whoever takes the payments how one ended, so that a hold never waits for ever and a paid one is never dropped.

The shop answers `GET {url}/{hold id}` with `{"state": "paid" | "unpaid" | "pending" | "unknown"}`, and
`DELETE {url}/{hold id}` cancels what is pending there and answers the final state. A cancelled payment can never
become paid; that promise is the shop's, and it is what makes giving the units back safe.
"""

from typing import Literal, Protocol
from uuid import UUID

import httpx
import msgspec

PaymentState = Literal["paid", "unpaid", "pending", "unknown"]


class PaymentAnswer(msgspec.Struct, frozen=True):
    """What the payment provider says of one hold."""

    state: PaymentState


class PaymentInquiry(Protocol):
    """Where the reconciler asks. Any failure to get a clear answer is `unknown`: units move only on a clear one."""

    async def ask(self, hold_id: UUID) -> PaymentState:
        """How the hold's payment stands, as far as the provider can tell."""
        ...

    async def cancel(self, hold_id: UUID) -> PaymentState:
        """Cancel the hold's payment if it is pending, and say how it ended."""
        ...


class HttpPaymentInquiry:
    """The shop's own endpoint, reached with a bearer key; answers that are slow, broken or strange count as unknown."""

    def __init__(self, url: str, key: str, client: httpx.AsyncClient) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        self._client = client

    async def ask(self, hold_id: UUID) -> PaymentState:
        return await self._request("GET", hold_id)

    async def cancel(self, hold_id: UUID) -> PaymentState:
        return await self._request("DELETE", hold_id)

    async def _request(self, method: str, hold_id: UUID) -> PaymentState:
        try:
            response = await self._client.request(method, f"{self._url}/{hold_id}", headers=self._headers)
            if response.status_code != 200:
                return "unknown"
            return msgspec.json.decode(response.content, type=PaymentAnswer).state
        except (httpx.HTTPError, msgspec.MsgspecError):
            return "unknown"


class NoPaymentInquiry:
    """Used where no shop endpoint is configured: nothing is known, so a person decides with `fairgate hold resolve`."""

    async def ask(self, hold_id: UUID) -> PaymentState:
        return "unknown"

    async def cancel(self, hold_id: UUID) -> PaymentState:
        return "unknown"


async def final_state(inquiry: PaymentInquiry, hold_id: UUID) -> Literal["paid", "unpaid", "unknown"]:
    """How the payment ended, cancelling it at the provider if it is still pending; pending after that is unknown."""
    state = await inquiry.ask(hold_id)
    if state == "pending":
        state = await inquiry.cancel(hold_id)
    return "unknown" if state == "pending" else state
