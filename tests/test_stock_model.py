"""Any sequence of verbs leaves the stock as a few lines of Python say it must be, with balanced books after each step."""

import asyncio
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID

import orjson
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as effort_of
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chassis.database import make_pool
from chassis.settings import Settings
from counters.rules import Done, Line, Refused, SaleName, SkuSettings
from counters.store import Disagreement, Level
from tests.fault_proxy import FaultProxy
from tests.stock_world import Held, World, codes, held

T = TypeVar("T")
SEATS = ("A-1", "A-2", "A-3", "A-4")
BUYER_MAX = 6
EXTENSIONS_MAX = 2  # of units; seats have the default, and in a cart the strictest rule holds
SEAT_EXTENSIONS_MAX = 1


@dataclass(slots=True)
class ModelHold:
    """What a hold must be. `state` is expired from its deadline on, swept or not."""

    held: Held
    key: str
    lines: tuple[Line, ...]
    buyer: str
    quantity: int
    seats: frozenset[str]
    state: str = "held"
    extensions: int = 0
    sale: str | None = None
    sale_key: str | None = None  # under which it was sold; that key keeps its answer

    @property
    def live(self) -> bool:
        return self.state in ("held", "paying")

    @property
    def ended(self) -> str | None:
        """The refusal of verbs that need a live hold."""
        ends = {
            "expired": "hold-expired",
            "released": "hold-released",
            "sold": "hold-sold",
            "cancelled": "hold-released",
        }
        return ends.get(self.state)


@dataclass(slots=True)
class Model:
    """One fungible SKU and one hall."""

    total: int
    holds: list[ModelHold] = field(default_factory=list)

    def units(self, *states: str) -> int:
        return sum(hold.quantity for hold in self.holds if hold.state in states)

    def seats(self, *states: str) -> set[str]:
        return {seat for hold in self.holds if hold.state in states for seat in hold.seats}

    @property
    def available(self) -> int:
        return self.total - self.units("held", "paying", "sold")

    def allowed(self, buyer: str) -> int:
        """How many units the buyer may still have."""
        states = ("held", "paying", "sold")
        return BUYER_MAX - sum(hold.quantity for hold in self.holds if hold.buyer == buyer and hold.state in states)

    def refusal(self, quantity: int, seats: frozenset[str], buyer: str) -> str | None:
        """Why a cart cannot be had now; the buyer's limit is judged before the stock, units before seats."""
        if quantity > self.allowed(buyer):
            return "buyer-limit"
        if quantity > self.available:
            return "insufficient-stock" if self.available else "sold-out"
        return "seat-taken" if seats & self.seats("held", "paying", "sold") else None


buyers = st.sampled_from(["ada", "bob", "cleo"])
carts = st.tuples(
    st.sampled_from([1, 5, 2, 3, 0]),
    st.sampled_from([(), (), ("A-1",), ("A-1", "A-2"), ("A-3",), ("A-3", "A-4")]).map(frozenset),
    buyers,
)
choices = st.integers(0, 100)


def reserved(machine: "StockMachine") -> bool:
    """Whether there is a hold to act on."""
    return bool(machine.model.holds)


class StockMachine(RuleBasedStateMachine):
    """The verbs as rules, each on the stock and on the model; drives the stock's event loop from its own thread."""

    def __init__(self, world: World, proxy: FaultProxy, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.world = world
        self.proxy = proxy
        self.loop = loop
        self.name = secrets.token_hex(4)  # SKUs of this run's own: the database is shared by all runs
        self.sku, self.hall = f"ticket-{self.name}", f"hall-{self.name}"
        self.model = Model(0)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def chosen(self, choice: int) -> ModelHold:
        """A hold, three times in four one that lives if any does: what has ended soon has little left to show."""
        live = [hold for hold in self.model.holds if hold.live]
        among = live if live and choice % 4 else self.model.holds
        return among[choice // 4 % len(among)]

    def does(self, hold: ModelHold, outcome: Done | Refused, expected: str | None, state: str) -> None:
        """The verb answered `expected` (a refusal, or None for done), and then the hold is in `state`."""
        assert codes([outcome]) == [expected or "done"]
        if expected is None:
            hold.state = state

    @initialize(
        total=st.sampled_from([9, 12, 5, 3]), shards=st.integers(1, 4), first=st.lists(carts, min_size=3, max_size=6)
    )
    def open_sale(self, total: int, shards: int, first: list[tuple[int, frozenset[str], str]]) -> None:
        """Put both SKUs on sale, and let the first buyers reserve: each run has holds to act on."""
        rules = {"buyer_max": BUYER_MAX, "extensions_max": EXTENSIONS_MAX}
        self.shards, self.model.total = shards, total
        self.ticket_id = self.wait(self.world.fungible(self.sku, total=total, shards=shards, **rules)).id
        self.wait(self.world.seated(self.hall, rows=1, seats=len(SEATS)))
        for cart in first:
            self.reserve(cart)

    @rule(cart=carts)
    def reserve(self, cart: tuple[int, frozenset[str], str]) -> None:
        quantity, seats, buyer = cart
        units = [Line(self.sku, quantity)] if quantity else []
        lines = (*units, Line(self.hall, seats=tuple(sorted(seats)))) if seats else tuple(units)
        if not lines:
            return
        key = f"{self.name}-{secrets.token_hex(4)}"
        refusal = self.model.refusal(quantity, seats, buyer)
        outcome = self.wait(self.world.reserve(*lines, key=key, buyer=buyer))
        assert codes([outcome]) == [refusal or "done"]
        if refusal is None:
            self.model.holds.append(ModelHold(held(outcome), key, lines, buyer, quantity, seats))

    @rule(buyer=buyers, border=st.sampled_from(["stock", "limit"]), more=st.integers(0, 1))
    def reserve_at_the_border(self, buyer: str, border: str, more: int) -> None:
        """Ask for exactly what is left, or for one more than that."""
        left = self.model.available if border == "stock" else self.model.allowed(buyer)
        self.reserve((left + more, frozenset(), buyer))

    @precondition(reserved)
    @rule(choice=choices)
    def repeat_and_contradict(self, choice: int) -> None:
        """The same key finds the first answer; the same key with another body, or another fence, has no effect."""
        hold = self.chosen(choice)
        again = self.wait(self.world.reserve(*hold.lines, key=hold.key, buyer=hold.buyer))
        assert isinstance(again, Done) and again.replayed
        assert orjson.loads(again.document) == hold.held.document, "the first answer, whatever became of the hold"
        other_body = self.wait(self.world.reserve(*hold.lines, key=hold.key, buyer="somebody else"))
        assert codes([other_body]) == ["key-reused"]
        other_lead = self.wait(self.world.reserve(Line(self.sku, 1), key=hold.key, buyer="somebody else"))
        assert isinstance(other_lead, Refused)
        other_fence = self.wait(self.world.confirm(hold.held, fence=hold.held.fence + 1))
        assert codes([other_fence]) == ["stale-fence"]

    @rule(cart=carts)
    def reserve_twice_at_once(self, cart: tuple[int, frozenset[str], str]) -> None:
        """A double click: both have the same key, and one effect."""
        quantity, _, buyer = cart
        if not quantity:
            return
        key = f"{self.name}-{secrets.token_hex(4)}"
        refusal = self.model.refusal(quantity, frozenset(), buyer)
        line = Line(self.sku, quantity)
        outcomes = self.wait(self.both(line, key, buyer))
        assert sorted(codes(outcomes)) == ([refusal, refusal] if refusal else ["done", "replayed"])
        if refusal is None:
            first = next(outcome for outcome in outcomes if isinstance(outcome, Done) and not outcome.replayed)
            self.model.holds.append(ModelHold(held(first), key, (line,), buyer, quantity, frozenset()))

    async def both(self, line: Line, key: str, buyer: str) -> list[Done | Refused]:
        return list(await asyncio.gather(*(self.world.reserve(line, key=key, buyer=buyer) for _ in range(2))))

    @rule(answers=st.integers(1, 2))
    def lose_the_next_answers(self, answers: int) -> None:
        """The next statements commit, and nobody hears of it: whatever verb comes next must answer as if they had."""
        self.proxy.lose_answers(answers)

    @precondition(reserved)
    @rule(choice=choices, key=st.sampled_from(["first", "second"]))
    def confirm(self, choice: int, key: str) -> None:
        hold = self.chosen(choice)
        outcome = self.wait(self.world.confirm(hold.held, key=f"{key}-{hold.key}"))
        if hold.state == "sold" or key == hold.sale_key:
            assert isinstance(outcome, Done) and outcome.replayed and outcome.document == hold.sale
            return
        self.does(hold, outcome, hold.ended, "sold")
        if isinstance(outcome, Done):
            hold.sale, hold.sale_key = outcome.document, key

    @precondition(reserved)
    @rule(choice=choices, all_but=st.integers(0, 2))
    def confirm_part(self, choice: int, all_but: int) -> None:
        """Sell some of the units and none of the seats; the rest comes back."""
        hold = self.chosen(choice)
        part = sum(line.quantity or 0 for line in hold.lines) - all_but
        if part < 1:
            return
        outcome = self.wait(self.world.confirm(hold.held, lines=(Line(self.sku, part),)))
        if hold.state == "sold":
            assert isinstance(outcome, Done) and outcome.replayed and outcome.document == hold.sale
            return
        self.does(hold, outcome, hold.ended, "sold")
        if isinstance(outcome, Done):
            hold.sale, hold.quantity, hold.seats = outcome.document, part, frozenset()

    @precondition(reserved)
    @rule(choice=choices)
    def confirm_late(self, choice: int) -> None:
        """A payment that came too late buys the same again, if it is still there for this buyer."""
        among = [hold for hold in self.model.holds if hold.state in ("expired", "held")] or self.model.holds
        hold = among[choice % len(among)]
        if hold.state == "held":
            self.wait(self.world.expire(hold.held))
            hold.state = "expired"
        outcome = self.wait(self.world.confirm(hold.held, reacquire=True))
        if hold.state == "sold":
            assert isinstance(outcome, Done) and outcome.replayed and outcome.document == hold.sale
            return
        refusal = hold.ended
        if hold.state == "expired":
            reason = self.model.refusal(hold.quantity, hold.seats, hold.buyer)
            refusal = "hold-expired" if reason else None
            if isinstance(outcome, Refused):
                assert outcome.facts["reason"] == reason
        self.does(hold, outcome, refusal, "sold")
        if isinstance(outcome, Done):
            hold.sale = outcome.document
            hold.held = replace(hold.held, fence=orjson.loads(outcome.document)["fence"])

    @precondition(reserved)
    @rule(choice=choices, twice=st.booleans())
    def cancel(self, choice: int, twice: bool) -> None:
        sold = [hold for hold in self.model.holds if hold.state == "sold"]
        if not sold:
            return
        hold = sold[choice % len(sold)]
        sale = SaleName(UUID(orjson.loads(hold.sale or "")["id"]), hold.held.name.sku_id)
        cancelled = [self.wait(self.world.stock.cancel(sale, "shop:box", "fire")) for _ in range(1 + twice)]
        assert codes(cancelled) == ["done"] * (1 + twice)
        assert cancelled[0] == cancelled[-1]
        hold.state = "cancelled"

    @precondition(reserved)
    @rule(choice=choices)
    def release(self, choice: int) -> None:
        hold = self.chosen(choice)
        outcome = self.wait(self.world.stock.release(hold.held.name, hold.held.fence, "shop:box"))
        self.does(hold, outcome, "hold-sold" if hold.state == "sold" else None, "released" if hold.live else hold.state)

    @precondition(reserved)
    @rule(choice=choices)
    def extend(self, choice: int) -> None:
        hold = self.chosen(choice)
        outcome = self.wait(self.world.stock.extend(hold.held.name, hold.held.fence, "shop:box", None))
        most = SEAT_EXTENSIONS_MAX if hold.seats else EXTENSIONS_MAX
        spent = "extension-limit" if hold.extensions >= most else None
        self.does(hold, outcome, "hold-paying" if hold.state == "paying" else hold.ended or spent, "held")
        hold.extensions += isinstance(outcome, Done)

    @precondition(reserved)
    @rule(choice=choices)
    def start_payment(self, choice: int) -> None:
        hold = self.chosen(choice)
        outcome = self.wait(self.world.stock.start_payment(hold.held.name, hold.held.fence, "shop:box", None))
        self.does(hold, outcome, hold.ended, "paying")

    @precondition(reserved)
    @rule(choice=choices, ended=st.sampled_from([("paid", "sold"), ("unpaid", "released"), ("unknown", "paying")]))
    def resolve(self, choice: int, ended: tuple[Any, str]) -> None:
        hold = self.chosen(choice)
        says, state = ended
        outcome = self.wait(
            self.world.stock.resolve(hold.held.name, says, overdue_only=False, actor="operator:ann", reason=None)
        )
        repeated = hold.state == state and says != "unknown"
        self.does(hold, outcome, None if hold.state == "paying" or repeated else "hold-not-paying", state)
        if hold.state == "sold" and isinstance(outcome, Done):
            hold.sale = hold.sale or outcome.document
            assert outcome.document == hold.sale

    @precondition(reserved)
    @rule(choice=choices)
    def let_the_deadline_pass(self, choice: int) -> None:
        hold = self.chosen(choice)
        if hold.state == "held":
            self.wait(self.world.expire(hold.held))
            hold.state = "expired"

    @rule(limit=st.integers(1, 3), skip_locked=st.booleans())
    def sweep(self, limit: int, skip_locked: bool) -> None:
        swept = self.wait(self.world.stock.expire_due(limit=limit, skip_locked=skip_locked))
        assert swept.holds <= limit

    @rule(tolerance=st.integers(0, 2))
    def rebalance(self, tolerance: int) -> None:
        self.wait(self.world.stock.rebalance(self.ticket_id, tolerance))
        assert self.wait(self.world.stock.rebalance(self.ticket_id, tolerance)) == 0

    @rule(total=st.sampled_from([15, 12, 8, 3, 0]))
    def restate(self, total: int) -> None:
        wanted = SkuSettings(
            title=self.sku, total=total, shards=self.shards, buyer_max=BUYER_MAX, extensions_max=EXTENSIONS_MAX
        )
        outcome = self.wait(self.world.stock.put_sku(self.sku, wanted, "operator:ann"))
        if self.model.units("held", "paying", "sold") > total:
            assert codes([outcome]) == ["below-commitments"]
        else:
            assert codes([outcome]) == ["done"]
            self.model.total = total

    @invariant()
    def the_stock_is_what_the_model_says(self) -> None:
        if not hasattr(self, "ticket_id"):
            return
        (levels, faults), model = self.wait(self.books()), self.model
        free_seats = len(SEATS) - len(model.seats("held", "paying", "sold"))
        assert {level.name: (level.available, level.held, level.sold) for level in levels} == {
            self.sku: (model.available, model.units("held", "paying"), model.units("sold")),
            self.hall: (free_seats, len(model.seats("held", "paying")), len(model.seats("sold"))),
        }
        assert faults == []

    async def books(self) -> tuple[list[Level], list[Disagreement]]:
        """What is left of both SKUs, and what their audits find."""
        levels = await self.world.stock.levels([self.sku, self.hall])
        audits = await asyncio.gather(*(self.world.stock.audit(level) for level in levels))
        return levels, [fault for audit in audits for fault in audit]

    def teardown(self) -> None:
        """Sweep what this run left, so that the next run's sweeps find their own."""
        while self.wait(self.world.stock.expire_due()).holds:
            pass


@pytest.mark.timeout(420)  # a failure is shrunk for up to five minutes; a pass takes seconds
async def test_any_sequence_of_verbs_is_as_the_model_says(settings: Settings) -> None:
    async with FaultProxy(settings.database_url) as proxy:
        async with make_pool(settings.model_copy(update={"database_url": proxy.url})) as pool:
            await run_machine(World(pool), proxy)


async def run_machine(world: World, proxy: FaultProxy) -> None:
    """Many sequences, each on SKUs of its own."""
    loop = asyncio.get_running_loop()
    effort = effort_of(
        max_examples=18,
        stateful_step_count=40,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )

    class OnThisStock(StockMachine):
        def __init__(self) -> None:
            super().__init__(world, proxy, loop)

    await asyncio.to_thread(run_state_machine_as_test, OnThisStock, settings=effort)
