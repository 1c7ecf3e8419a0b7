"""The shop's pages: server-rendered, whole without JavaScript, one form for each thing a buyer can do.

Each form carries its own hidden key, so that a double click, a reload or an impatient second try is one act.
"""

import secrets
from datetime import UTC, datetime
from typing import Any, assert_never

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.templating import Jinja2Templates

from chassis.problems import PROBLEMS, Problem
from fairgate.shop.buyers import buyer_of, checked_key
from fairgate.shop.checkout import Card, Checkout, NotPaid, Paid, Refused
from fairgate.shop.payments import Payments
from fairgate.shop.settings import ShopSettings
from fairgate.shop.shelf import Shelf
from fairgate.shop.stock import Reply, Stock

SEATS_MAX = 8
CARDS: dict[str, Card] = {"ok": "ok", "declined": "declined", "slow": "slow"}
SLOW_CARD_SECONDS = 8.0
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}

# What to tell a buyer when the stock says no.
SAYINGS = {
    "sold-out": "Everything is sold or held by somebody else just now. Held tickets come back when they are not paid.",
    "insufficient-stock": "Fewer are free than you asked for. Try a smaller number.",
    "seat-taken": "Somebody was faster with one of those seats. Please choose again.",
    "buyer-limit": "You already have as many as one buyer may have.",
    "not-on-sale": "This is not on sale now.",
    "pass-refused": "Your time in the shop is over. Please join the line again.",
    "pass-required": "This shop is entered through its gate. Please join the line first.",
    "hold-expired": "The time for this basket ran out, and its tickets went back on sale. Nothing was charged.",
    "hold-released": "This basket was given back. Nothing was charged.",
}


class Pages:
    """The pages over one checkout."""

    def __init__(
        self,
        templates: Jinja2Templates,
        *,
        checkout: Checkout,
        stock: Stock,
        payments: Payments,
        shelf: Shelf,
        settings: ShopSettings,
    ) -> None:
        self._templates = templates
        self._checkout = checkout
        self._stock = stock
        self._payments = payments
        self._shelf = shelf
        self._quantity_max = settings.quantity_max

    def routes(self) -> list[Route]:
        """Where each page and form is served."""
        return [
            Route("/", self.shop, methods=["GET"]),
            Route("/seats/{sku}", self.seats, methods=["GET"]),
            Route("/buy", self.buy, methods=["POST"]),
            Route("/basket/{hold:uuid}", self.basket, methods=["GET"]),
            Route("/basket/{hold:uuid}/pay", self.pay, methods=["POST"]),
            Route("/basket/{hold:uuid}/cancel", self.cancel, methods=["POST"]),
            Route("/paid/{hold:uuid}", self.paid, methods=["GET"]),
        ]

    async def shop(self, request: Request) -> Response:
        """What is on sale, and the buyer's own baskets."""
        buyer = buyer_of(request)
        levels = await self._shelf.levels()
        sections = {level["sku"]: await self._shelf.sections(level["sku"]) for level in levels if _seated(level)}
        baskets = await self._payments.list_baskets(buyer.name)
        return self._page(
            request,
            "shop.html",
            levels=levels,
            sections=sections,
            baskets=baskets,
            key=secrets.token_urlsafe(16),
            quantities=range(1, self._quantity_max + 1),
        )

    async def seats(self, request: Request) -> Response:
        """The free seats of one section, to be ticked."""
        buyer_of(request)
        sku, wanted = request.path_params["sku"], request.query_params.get("section", "")
        sections = await self._shelf.sections(sku)
        section = next((section for section in sections if section.name == wanted), None)
        if section is None:
            raise Problem("not-found", "There is no such section.")
        return self._page(
            request, "seats.html", sku=sku, section=section, sections=sections, key=secrets.token_urlsafe(16)
        )

    async def buy(self, request: Request) -> Response:
        """Take what the form names into a basket; the same form twice leads to the same basket."""
        buyer = buyer_of(request)
        async with request.form(max_files=0, max_fields=SEATS_MAX * 4) as form:
            line, key = _line(form, self._quantity_max), checked_key(_field(form, "key"))
        reply = await self._checkout.reserve(buyer.name, buyer.shown_pass, key, line)
        if not reply.granted:
            return self._refusal(request, reply)
        return RedirectResponse(f"/basket/{reply.document['id']}", 303, PAGE_HEADERS)

    async def basket(self, request: Request) -> Response:
        """The hold, how long it lasts by the stock's clock, and what can be done with it."""
        hold = str(request.path_params["hold"])
        await self._checkout.fence_of(buyer_of(request).name, hold)
        reply = await self._stock.hold(hold)
        if not reply.granted:
            return self._refusal(request, reply)
        if reply.document["state"] == "sold":
            return RedirectResponse(f"/paid/{hold}", 303, PAGE_HEADERS)
        return self._page(
            request,
            "basket.html",
            hold=reply.document,
            seconds_left=_seconds_left(reply.document),
            key=secrets.token_urlsafe(16),
        )

    async def pay(self, request: Request) -> Response:
        """Take the pretend payment; the same form twice is one payment."""
        buyer, hold = buyer_of(request), str(request.path_params["hold"])
        fence = await self._checkout.fence_of(buyer.name, hold)
        async with request.form(max_files=0, max_fields=8) as form:
            card, key = CARDS.get(_field(form, "card"), "ok"), checked_key(_field(form, "key"))
        delay_seconds = SLOW_CARD_SECONDS if card == "slow" else 0
        outcome = await self._checkout.pay(buyer.name, hold, fence, key, card=card, delay_seconds=delay_seconds)
        match outcome:
            case Paid():
                return RedirectResponse(f"/paid/{hold}", 303, PAGE_HEADERS)
            case NotPaid(state):
                return self._page(request, "not_paid.html", 402, state=state)
            case Refused(reply):
                return self._refusal(request, reply)
            case _:
                assert_never(outcome)

    async def cancel(self, request: Request) -> Response:
        """Give the basket back."""
        buyer, hold = buyer_of(request), str(request.path_params["hold"])
        fence = await self._checkout.fence_of(buyer.name, hold)
        reply = await self._checkout.release(buyer.name, hold, fence)
        if not reply.granted:
            return self._refusal(request, reply)
        return RedirectResponse("/", 303, PAGE_HEADERS)

    async def paid(self, request: Request) -> Response:
        """The sale, or the basket while there is none."""
        hold = str(request.path_params["hold"])
        await self._checkout.fence_of(buyer_of(request).name, hold)
        reply = await self._stock.hold(hold)
        if reply.granted and reply.document["state"] != "sold":
            return RedirectResponse(f"/basket/{hold}", 303, PAGE_HEADERS)
        return self._page(request, "paid.html", hold=reply.document) if reply.granted else self._refusal(request, reply)

    def problem(self, request: Request, problem: Problem) -> Response:
        """A page for what went wrong, for browsers."""
        title = PROBLEMS[problem.code][1]
        saying = SAYINGS.get(problem.code, problem.detail)
        return self._page(request, "refused.html", problem.status, problem.headers, title=title, saying=saying)

    def _refusal(self, request: Request, reply: Reply) -> Response:
        title = reply.document.get("title", "That did not work")
        saying = SAYINGS.get(reply.code, reply.document.get("detail", ""))
        return self._page(request, "refused.html", reply.status, title=title, saying=saying)

    def _page(
        self, request: Request, name: str, status: int = 200, headers: dict[str, str] | None = None, **context: Any
    ) -> Response:
        return self._templates.TemplateResponse(request, name, context, status, {**PAGE_HEADERS, **(headers or {})})


def _seated(level: dict[str, Any]) -> bool:
    return bool(level.get("kind") == "seated")


def _field(form: FormData, name: str) -> str:
    value = form.get(name)
    return value if isinstance(value, str) else ""


def _line(form: FormData, quantity_max: int) -> dict[str, Any]:
    """The line that the buy form names. Raises Problem malformed."""
    sku = _field(form, "sku")
    seats = [seat for seat in form.getlist("seat") if isinstance(seat, str)]
    if seats:
        if len(seats) > SEATS_MAX:
            raise Problem("malformed", f"Choose at most {SEATS_MAX} seats at once.")
        return {"sku": sku, "seats": seats}
    quantity = _field(form, "quantity")
    if not sku or not (quantity.isascii() and quantity.isdigit() and 1 <= int(quantity[:9]) <= quantity_max):
        raise Problem("malformed", f"Choose seats, or between 1 and {quantity_max} tickets.")
    return {"sku": sku, "quantity": int(quantity)}


def _seconds_left(hold: dict[str, Any]) -> int:
    """How long the hold lasts, by the stock's own clock: its deadline less the time of its answer."""
    now = datetime.fromisoformat(hold["server_time"]) if "server_time" in hold else datetime.now(UTC)
    return max(0, int((datetime.fromisoformat(hold["expires_at"]) - now).total_seconds()))
