"""The shop's JSON calls, for apps and for the crowd: the same counter as the pages, in documents.

What the stock refuses is handed on as it came, problem document and status alike.
"""

from typing import Annotated, Any, Literal, assert_never
from uuid import UUID

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.http import invalid_fields, json_response, read_json
from chassis.problems import Problem
from fairgate.shop.buyers import buyer_of, key_of
from fairgate.shop.checkout import Checkout, NotPaid, Paid, Refused
from fairgate.shop.stock import Reply, Stock

Quantity = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Fence = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class HoldRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is wanted: a quantity of a fungible SKU, or seats by name."""

    sku: Name
    quantity: Quantity | None = None
    seats: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=20)] | None = None


class PayRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which hold is paid, and how the pretend card behaves; `delay` seconds are how long a slow one stalls."""

    hold: UUID
    fence: Fence
    card: Literal["ok", "declined", "slow"] = "ok"
    delay: Annotated[float, msgspec.Meta(ge=0, le=120)] = 0


class ReleaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which hold is given back."""

    hold: UUID
    fence: Fence


class Api:
    """The JSON calls over one checkout."""

    def __init__(self, checkout: Checkout, stock: Stock) -> None:
        self._checkout = checkout
        self._stock = stock

    def routes(self) -> list[Route]:
        """Where each call is served."""
        return [
            Route("/api/holds", self.reserve, methods=["POST"]),
            Route("/api/holds/{hold:uuid}", self.hold, methods=["GET"]),
            Route("/api/pay", self.pay, methods=["POST"]),
            Route("/api/release", self.release, methods=["POST"]),
        ]

    async def reserve(self, request: Request) -> Response:
        """Hold units for the buyer; 201 with the hold, or the stock's refusal."""
        buyer, key = buyer_of(request), key_of(request)
        wanted = await read_json(request, HoldRequest)
        return handed_on(await self._checkout.reserve(buyer.name, buyer.shown_pass, key, line_of(wanted)))

    async def hold(self, request: Request) -> Response:
        """The buyer's hold as it stands now."""
        hold = str(request.path_params["hold"])
        await self._checkout.fence_of(buyer_of(request).name, hold)
        return handed_on(await self._stock.hold(hold))

    async def pay(self, request: Request) -> Response:
        """Pay and confirm: `{outcome: paid, sale}` or `{outcome: declined | cancelled | refunded}`, else a refusal."""
        buyer, key = buyer_of(request), key_of(request)
        wanted = await read_json(request, PayRequest)
        delay_seconds = wanted.delay if wanted.card == "slow" else 0
        outcome = await self._checkout.pay(
            buyer.name, str(wanted.hold), wanted.fence, key, card=wanted.card, delay_seconds=delay_seconds
        )
        match outcome:
            case Paid(sale):
                return json_response({"outcome": "paid", "sale": sale})
            case NotPaid(state):
                return json_response({"outcome": state})
            case Refused(reply):
                return handed_on(reply)
            case _:
                assert_never(outcome)

    async def release(self, request: Request) -> Response:
        """Give the buyer's hold back; twice is one release."""
        buyer = buyer_of(request)
        wanted = await read_json(request, ReleaseRequest)
        return handed_on(await self._checkout.release(buyer.name, str(wanted.hold), wanted.fence))


def line_of(wanted: HoldRequest) -> dict[str, Any]:
    """The line of a hold as the stock takes it. Raises Problem invalid unless quantity or seats are named, not both."""
    match wanted:
        case HoldRequest(quantity=int() as quantity, seats=None):
            return {"sku": wanted.sku, "quantity": quantity}
        case HoldRequest(quantity=None, seats=list() as seats):
            return {"sku": wanted.sku, "seats": seats}
        case _:
            raise invalid_fields([("", "name either a quantity or seats")])


def handed_on(reply: Reply) -> Response:
    """The stock's answer, unchanged. A refusal of the shop's own key is our trouble, not the buyer's."""
    if reply.status == 401:
        raise Problem("busy", "The shop is not set up to sell now: the stock does not accept its key.")
    headers = {"Cache-Control": "no-store"} | ({"Idempotent-Replayed": "true"} if reply.replayed else {})
    media_type = "application/json" if reply.granted else "application/problem+json"
    return Response(orjson.dumps(reply.document), reply.status, headers, media_type)
