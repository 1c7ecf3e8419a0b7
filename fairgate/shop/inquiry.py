"""What the reconciler asks: how a hold's payment stands, and to end it if it is still pending.

A bearer key protects both calls; the gate's proxy does not expose them.
"""

import hmac
from typing import assert_never

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.http import json_response
from chassis.problems import Problem
from fairgate.shop.payments import InquiryState, Payments, PaymentState


class Inquiry:
    """The two calls over the payments, for whoever shows `key`."""

    def __init__(self, payments: Payments, key: str) -> None:
        self._payments = payments
        self._expected = f"Bearer {key}".encode()

    def routes(self) -> list[Route]:
        """Where the calls are served."""
        return [
            Route("/payments/{hold:uuid}", self.ask, methods=["GET"]),
            Route("/payments/{hold:uuid}", self.cancel, methods=["DELETE"]),
        ]

    async def ask(self, request: Request) -> Response:
        """`{hold, state}`; unknown when nobody ever began to pay for the hold here."""
        self._admit(request)
        hold = str(request.path_params["hold"])
        payment = await self._payments.find(hold)
        return json_response({"hold": hold, "state": "unknown" if payment is None else inquiry_state(payment.state)})

    async def cancel(self, request: Request) -> Response:
        """`{hold, state}` with a final state: unpaid from now on and for ever, or paid since before. Repeat at will."""
        self._admit(request)
        hold = str(request.path_params["hold"])
        return json_response({"hold": hold, "state": inquiry_state(await self._payments.cancel(hold))})

    def _admit(self, request: Request) -> None:
        shown = request.headers.get("authorization", "").encode("latin-1")
        if not hmac.compare_digest(shown, self._expected):
            raise Problem("unauthenticated", "Send the inquiry key.", headers={"WWW-Authenticate": "Bearer"})


def inquiry_state(state: PaymentState) -> InquiryState:
    """What a payment's state means to the stock: is the hold paid for?"""
    match state:
        case "paid" | "pending":
            return state
        case "declined" | "cancelled" | "refunded":
            return "unpaid"
        case _:
            assert_never(state)
