"""The hot calls: reserve, paying, confirm, release, extend. Each reads who asks for what, asks the stock, says the outcome.

A reserve walks from top to bottom through `reserve`; what it passes on the way is in callers, rules, catalog and store.
"""

from msgspec.json import Decoder

from chassis.answer import Answer
from chassis.hot import Asked, HotCall
from counters.answers import said
from counters.api import hold_name
from counters.callers import Callers, as_holder, for_buyer
from counters.carts import sum_lines
from counters.catalog import Catalog
from counters.rules import (
    ConfirmBody,
    Done,
    ExtendBody,
    FenceBody,
    Keyed,
    PayingBody,
    Refused,
    Reservation,
    ReserveBody,
    fingerprint,
    read_key,
)
from counters.store import Stock


class HotVerbs:
    """The handlers of the hot calls."""

    def __init__(self, stock: Stock, callers: Callers, catalog: Catalog) -> None:
        self._stock = stock
        self._callers = callers
        self._catalog = catalog
        self._reserve_body = Decoder(ReserveBody)
        self._paying_body = Decoder(PayingBody)
        self._confirm_body = Decoder(ConfirmBody)
        self._fence_body = Decoder(FenceBody)
        self._extend_body = Decoder(ExtendBody)

    def calls(self) -> list[HotCall]:
        return [
            HotCall("/v1/holds", self.reserve),
            HotCall("/v1/holds/{hold_id}/paying", self.start_payment),
            HotCall("/v1/holds/{hold_id}/confirm", self.confirm),
            HotCall("/v1/holds/{hold_id}/release", self.release),
            HotCall("/v1/holds/{hold_id}/extend", self.extend),
        ]

    async def reserve(self, asked: Asked) -> Answer:
        callers = await self._callers.reservers(asked.headers)
        key = read_key(asked.header(b"idempotency-key"))
        body = await asked.json(self._reserve_body)
        callers = for_buyer(callers, body.buyer)
        items = await self._catalog.items([line.sku for line in body.lines])
        lead = items[body.lines[0].sku]
        wants = sum_lines(body.lines, items)
        outcome: Done | Refused = Refused("not-found")
        for caller in callers:
            outcome = await self._stock.reserve(
                Reservation(
                    lead=lead.id,
                    wants=wants,
                    lines=body.lines,
                    keyed=Keyed(f"{caller.name}:reserve", key, fingerprint([body, caller.owner])),
                    actor=caller.name,
                    owner=caller.owner,
                    buyer=caller.buyer,
                    room=caller.room,
                    batched=lead.batched,
                )
            )
            if not (isinstance(outcome, Refused) and outcome.code == "other-room"):
                break
        return said(outcome, 201, pass_shown=callers[0].room is not None)

    async def start_payment(self, asked: Asked) -> Answer:
        caller = await self._callers.shop(asked.headers)
        body = await asked.json(self._paying_body)
        return said(await self._stock.start_payment(hold_name(asked.name), body.fence, caller.name, body.until))

    async def confirm(self, asked: Asked) -> Answer:
        caller = await self._callers.shop(asked.headers)
        key = read_key(asked.header(b"idempotency-key"))
        body = (await asked.json(self._confirm_body)).checked()
        hold = hold_name(asked.name)
        keyed = Keyed(f"{caller.name}:confirm:{hold.id}", key, fingerprint(body))
        return said(
            await self._stock.confirm(hold, body.fence, caller.name, keyed, lines=body.lines, reacquire=body.reacquire)
        )

    async def release(self, asked: Asked) -> Answer:
        callers = await self._callers.holders(asked.headers)
        body = await asked.json(self._fence_body)
        hold = hold_name(asked.name)
        return said(await as_holder(callers, lambda caller: self._stock.release(hold, body.fence, caller)))

    async def extend(self, asked: Asked) -> Answer:
        callers = await self._callers.holders(asked.headers)
        body = await asked.json(self._extend_body)
        hold = hold_name(asked.name)
        return said(await as_holder(callers, lambda caller: self._stock.extend(hold, body.fence, caller, body.seconds)))
