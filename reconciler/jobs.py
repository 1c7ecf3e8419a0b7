"""The reconciler's jobs: each `run_once()` works until nothing is due, and returns what it did.

A job may die at any point: everything it changes is one transaction of the stock's own verbs, so the next pass of
whoever holds the lease goes on where it stopped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import structlog

from chassis.problems import Problem
from counters.history import History
from counters.rules import Done, HoldName
from counters.store import DueHold, PayingHold, Stock
from reconciler.payments import PaymentInquiry, final_state

SWEEP_BATCH = 1_000
PAYMENTS_BATCH = 200
NUMBER_BATCH = 10_000
REBALANCE_TOLERANCE = 2
ACTOR = "reconciler"
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Report:
    """What one pass of a job did: figures by name, and a sentence for each thing that a person should look at."""

    job: str
    done: dict[str, int]
    attention: tuple[str, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return not any(self.done.values()) and not self.attention


class Job(Protocol):
    """Something that time does."""

    name: str

    async def run_once(self) -> Report:
        """Do what is due and say what was done."""
        ...


class Sweep:
    """Ends holds that are past their deadline and gives their units back."""

    name = "sweep"

    def __init__(self, stock: Stock) -> None:
        self._stock = stock

    async def run_once(self) -> Report:
        holds = units = locked = torn = 0
        last: DueHold | None = None
        while True:
            expired = await self._stock.expire_due(limit=SWEEP_BATCH, actor=ACTOR, after=last)
            holds += expired.holds
            units += expired.units
            locked += expired.locked
            torn += expired.torn
            last = expired.last
            if last is None:
                return Report(self.name, {"holds": holds, "units": units}, tuple(_left(locked, torn)))


def _left(locked: int, torn: int) -> Iterator[str]:
    if locked:
        yield f"{locked} due holds are locked: somebody decides them at this moment. What is left of them the next pass ends"
    if torn:
        yield f"{torn} due holds cannot end before their books are mended: run fairgate audit, and see what repair says of them"


class SettlePayments:
    """Asks how payments past their deadline ended: paid sells, unpaid gives back, unknown waits for a person."""

    name = "payments"

    def __init__(self, stock: Stock, inquiry: PaymentInquiry) -> None:
        self._stock = stock
        self._inquiry = inquiry

    async def run_once(self) -> Report:
        ended = {"paid": 0, "unpaid": 0, "unknown": 0}
        attention: list[str] = []
        asked: set[UUID] = set()  # one that nobody knows of becomes stuck, and so stands behind us once more
        last: PayingHold | None = None
        while True:
            first = await self._stock.paying_holds(overdue_only=True, limit=PAYMENTS_BATCH)
            due = [hold for hold in first if hold.stuck_since is None and hold.id not in asked]
            if not due:  # then those who were asked about in vain before; whoever falls due meanwhile still comes first
                due = await self._stock.paying_holds(overdue_only=True, limit=PAYMENTS_BATCH, after=last)
                if not due:
                    return Report(self.name, ended, tuple(attention))
                last = due[-1]
            for hold in due:
                if hold.id not in asked:
                    asked.add(hold.id)
                    attention += await self._settle(hold, ended)

    async def _settle(self, hold: PayingHold, ended: dict[str, int]) -> Sequence[str]:
        """End one hold as its payment ended, and count it; what a person should look at."""
        state = await final_state(self._inquiry, hold.id)
        try:
            outcome = await self._stock.resolve(
                HoldName(hold.id, hold.sku_id),
                state,
                overdue_only=True,
                actor=ACTOR,
                reason=f"the provider says {state}",
            )
        except Problem as problem:  # a hold in drift must not keep those behind it waiting
            return [f"hold {hold.id} ({hold.quantity} of {hold.sku}) is {state}, but: {problem.detail}"]
        # Refused means that the shop ended it while we asked: its own word stands.
        if isinstance(outcome, Done):
            ended[state] += 1
        if state != "unknown":
            return []
        return [
            f"hold {hold.id} ({hold.quantity} of {hold.sku}): nobody knows whether it was paid. "
            f"Find out, then: fairgate hold resolve {hold.id} --paid or --unpaid"
        ]


class Rebalance:
    """Evens out the free units of each fungible SKU's sub-counters."""

    name = "rebalance"

    def __init__(self, stock: Stock) -> None:
        self._stock = stock

    async def run_once(self) -> Report:
        moved = 0
        for level in await self._stock.levels():
            if level.kind == "fungible" and level.state == "on_sale":
                moved += await self._stock.rebalance(level.id, REBALANCE_TOLERANCE)
        return Report(self.name, {"units": moved})


class RepairDrift:
    """Compares every counter and seat with holds, sales and ledger, and makes them agree again."""

    name = "repair"

    def __init__(self, stock: Stock) -> None:
        self._stock = stock

    async def run_once(self) -> Report:
        repaired = 0
        left: list[str] = []
        for level in await self._stock.levels():
            if not await self._stock.audit(level):
                continue
            for repair in await self._stock.repair(level, dry_run=False, actor=ACTOR):
                repaired += repair.done
                log.warning(
                    "drift", sku=repair.sku, place=repair.place, was=repair.was, became=repair.became, done=repair.done
                )
            left += [
                f"{fault.sku}: {fault.place}: {fault.what}: recorded {fault.recorded}, expected {fault.expected}"
                for fault in await self._stock.audit(level)
            ]
        return Report(self.name, {"repaired": repaired, "left": len(left)}, tuple(left))


class Number:
    """The sequencer: gives the ledger's rows their numbers, SKU by SKU, a bounded pass at a time so that none waits long."""

    name = "number"

    def __init__(self, history: History) -> None:
        self._history = history

    async def run_once(self) -> Report:
        rows = 0
        due = await self._history.unsettled()
        while due:
            passes = [(sku_id, await self._history.number(sku_id, NUMBER_BATCH)) for sku_id in due]
            rows += sum(one.rows for _, one in passes)
            due = [sku_id for sku_id, one in passes if one.more]
        return Report(self.name, {"rows": rows})


def all_jobs(stock: Stock, history: History, inquiry: PaymentInquiry) -> Sequence[Job]:
    """The jobs in the order of one pass: mend the books first, since drift stops the others; then give back, and even out.

    The ledger is numbered last, so that it has what the others did.
    """
    return (RepairDrift(stock), Sweep(stock), SettlePayments(stock, inquiry), Rebalance(stock), Number(history))
