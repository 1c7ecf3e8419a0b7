"""What a buyer does at the counter: reserve, pay, give back. The rules of paying stand here, free of HTTP.

The order makes every crash repairable: first the payment's row, then `paying` at the stock, then the money, then the
confirmation. Whoever dies in between leaves a row from which the reconciler's inquiry reads the truth.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from chassis.problems import Problem
from fairgate.shop.payments import Payments, PaymentState
from fairgate.shop.stock import Reply, Stock

Card = Literal["ok", "declined", "slow"]

# Answers of the stock after which the hold can never be sold to this payer: the money goes back.
NEVER_SOLD = frozenset({"hold-expired", "hold-released", "stale-fence", "not-found"})


@dataclass(frozen=True, slots=True)
class Paid:
    """The hold is a sale; `sale` is the stock's document."""

    sale: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NotPaid:
    """No money was kept, and the units go back."""

    state: Literal["declined", "cancelled", "refunded"]


@dataclass(frozen=True, slots=True)
class Refused:
    """The stock let no payment begin; nothing was charged."""

    reply: Reply


Outcome = Paid | NotPaid | Refused


class Checkout:
    """Ties the stock and the payments together for the pages and for the JSON calls."""

    def __init__(self, stock: Stock, payments: Payments, pay_seconds: tuple[float, float]) -> None:
        self._stock = stock
        self._payments = payments
        self._pay_seconds = pay_seconds

    async def reserve(self, buyer: str, buyer_pass: str | None, key: str, line: dict[str, Any]) -> Reply:
        """Hold one line for the buyer; the same key again finds the same hold, a refusal binds nothing.

        The key is joined with the buyer: two buyers who happen to choose one key get two holds.
        """
        reply = await self._stock.reserve([line], f"{buyer}.{key}", buyer_pass)
        if reply.granted:
            await self._payments.keep_basket(reply.document["id"], buyer, reply.document["fence"])
        return reply

    async def pay(
        self, buyer: str, hold: str, fence: int, key: str, *, card: Card, delay_seconds: float = 0
    ) -> Outcome:
        """Take the pretend payment and confirm. Repeating it, at once or later, is one payment and one sale.

        Raises Problem busy when the stock cannot be reached: the same call again goes on where this one stopped.
        """
        await self._own(buyer, hold)
        payment = await self._payments.begin(hold, buyer, key, card)
        state = payment.state
        if state == "pending":
            started = await self._stock.start_payment(hold, fence)
            # A hold that a person resolved as paid is sold although our row is pending: then the money is due.
            if not started.granted and started.code != "hold-sold":
                await self._payments.end(hold, "cancelled")
                return Refused(started)
            await asyncio.sleep(delay_seconds + random.uniform(*self._pay_seconds))  # noqa: S311 - a pretence
            state = await self._payments.end(hold, "declined" if payment.card == "declined" else "paid")
        return await self._settle(hold, fence, state)

    async def release(self, buyer: str, hold: str, fence: int) -> Reply:
        """Give the buyer's hold back. A hold that is being paid stays: its payment decides."""
        await self._own(buyer, hold)
        payment = await self._payments.find(hold)
        if payment is not None and payment.state in ("pending", "paid"):
            raise Problem("hold-paying", "A payment for this hold is under way; it decides what becomes of the units.")
        return await self._stock.release(hold, fence)

    async def fence_of(self, buyer: str, hold: str) -> int:
        """The fence of the buyer's own hold. Raises Problem not-found."""
        return await self._own(buyer, hold)

    async def _settle(self, hold: str, fence: int, state: PaymentState) -> Outcome:
        match state:
            case "paid":
                reply = await self._stock.confirm(hold, fence)
                if reply.granted:
                    return Paid(reply.document)
                if reply.code not in NEVER_SOLD:
                    raise Problem("busy", f"The stock does not confirm this hold now ({reply.code}). Try again.")
                await self._payments.refund(hold)
                return NotPaid("refunded")
            case "declined":
                await self._stock.release(hold, fence)
                return NotPaid("declined")
            case "cancelled" | "refunded":
                return NotPaid(state)
            case "pending":
                raise Problem("busy", "The payment is still under way. Try again.")
            case _:
                assert_never(state)

    async def _own(self, buyer: str, hold: str) -> int:
        fence = await self._payments.find_fence(hold, buyer)
        if fence is None:
            raise Problem("not-found", "There is no such hold of yours.")
        return fence
