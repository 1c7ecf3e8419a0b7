"""The stock in Postgres: one method a verb, each one SQL function of the same name in counters/sql.

Every verb is safe to repeat: with the same key, or because its outcome is a state. What cannot be decided in time is
Problem busy, never a refusal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import asyncpg
import msgspec
import orjson

from chassis.database import Pool
from chassis.problems import busy
from counters.adjustments import AdjustBody
from counters.calls import Answer, Verbs
from counters.confirms import Confirms
from counters.ids import new_operation_id, new_sale_id
from counters.lanes import Lane, Lanes, LaneSettings
from counters.reserves import Reserves
from counters.rules import (
    TOTAL_MAX,
    Confirmation,
    Done,
    HoldName,
    Keyed,
    Line,
    Refused,
    Reservation,
    SaleName,
    SkuSettings,
)

RECLAIMS_MAX = 8
RECLAIM_BATCH = 500


# What putting a SKU did.
Put = Literal["created", "changed", "unchanged"]


@dataclass(frozen=True, slots=True)
class Sku:
    """A SKU and its rules, without its seats."""

    id: int
    name: str
    kind: str
    room: str | None
    settings: SkuSettings


@dataclass(frozen=True, slots=True)
class Expired:
    """What one batch of a sweep did, with how many due holds it left: `locked` by somebody who decides them at this moment, `torn`
    by drift. `last` is where the next batch goes on, or None when this was the end."""

    holds: int
    units: int
    locked: int
    torn: int
    last: "DueHold | None"


@dataclass(frozen=True, slots=True)
class DueHold:
    """A place in the order in which holds fall due."""

    expires_at: datetime
    id: UUID


@dataclass(frozen=True, slots=True)
class Level:
    """What is left of a SKU. `available` counts due, unswept holds and unused allowance as free; `backordered` is beyond the
    total; `next_release_at` is RFC 3339 or None."""

    id: int
    name: str
    title: str
    kind: str
    state: str
    room: str | None
    total: int
    held: int
    sold: int
    available: int
    backordered: int
    next_release_at: str | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One place where the books do not balance."""

    sku: str
    invariant: str
    place: str
    what: str
    recorded: str
    expected: str


@dataclass(frozen=True, slots=True)
class Repair:
    """One place that was made to agree again, or (not `done`) that needs a person."""

    sku: str
    place: str
    what: str
    was: str
    became: str
    done: bool


@dataclass(frozen=True, slots=True)
class PayingHold:
    """A hold that waits for its payment; `stuck_since` when nobody could say how it ended."""

    sku: str
    sku_id: int
    id: UUID
    paying_until: datetime
    stuck_since: datetime | None
    quantity: int
    actor: str


class Stock:
    """The verbs on one database."""

    def __init__(self, pool: Pool, lanes: LaneSettings | None = None) -> None:
        lanes = lanes or LaneSettings()
        self._verbs = Verbs(pool)
        self._lanes = Lanes(pool, lanes)
        self._tail = Lane(pool, lanes)
        self._reserves = Reserves(self._verbs, self._lanes, self._tail, self._reclaim)
        self._confirms = Confirms(self._verbs, self._lanes, self._reclaim)

    @property
    def queue_share(self) -> float:
        """How full this process's fullest lane is, from 0 to 1."""
        return max(self._lanes.fullest, self._tail.filled)

    async def reserve(self, wanted: Reservation) -> Done | Refused:
        """Hold what `wanted` asks for, all or nothing. A repeat with its key returns the first answer, replayed.

        One fungible SKU tries its key's sub-counter first; whatever that cannot serve, the tail decides.
        """
        answer = await self._reserves.decide(wanted)
        return answer.judged()

    async def _reclaim(self, sku_id: int) -> Expired:
        return await self.expire_due(sku_id, limit=RECLAIM_BATCH, skip_locked=False, actor="tail")

    async def start_payment(self, hold: HoldName, fence: int, caller: str, until: datetime | None) -> Done | Refused:
        """Let the hold wait for its payment. Repeating is harmless and never moves the deadline past the first start's."""
        return await self._in_lane("start_payment", hold, (hold.id, fence, caller, until))

    async def confirm(
        self,
        hold: HoldName,
        fence: int,
        caller: str,
        keyed: Keyed,
        *,
        lines: tuple[Line, ...] | None = None,
        reacquire: bool = False,
    ) -> Done | Refused:
        """Sell what the hold holds, or the part that `lines` name; the rest returns. Whatever the key and the lines, a sold
        hold answers its one sale. `reacquire`: an expired hold's units are taken again where they are still free."""
        answer = await self._confirms.decide(Confirmation(hold, fence, caller, keyed, lines, reacquire))
        return answer.judged()

    async def cancel(self, sale: SaleName, caller: str, reason: str) -> Done | Refused:
        """Give a sale's units back to stock; cancelling twice is one cancel. The document is the sale's."""
        return await self._decide("cancel", sale.sku_id, sale.id, caller, reason, new_operation_id())

    async def release(self, hold: HoldName, fence: int | None, caller: str) -> Done | Refused:
        """Give the units back; releasing twice is one release."""
        return await self._in_lane("release", hold, (hold.id, fence, caller))

    async def extend(self, hold: HoldName, fence: int, caller: str, seconds: int | None) -> Done | Refused:
        """Move the deadline further away; a repeat uses up another extension, and never brings it nearer."""
        return await self._in_lane("extend", hold, (hold.id, fence, caller, seconds, new_operation_id()))

    async def resolve(
        self,
        hold: HoldName,
        outcome: Literal["paid", "unpaid", "unknown"],
        *,
        overdue_only: bool,
        actor: str,
        reason: str | None,
    ) -> Done | Refused:
        """End a hold that waits for its payment, or mark it as stuck; repeating gives the same."""
        sale_id = new_sale_id(hold.sku_id)
        return await self._decide("resolve", hold.sku_id, hold.id, outcome, overdue_only, actor, reason, sale_id)

    async def hold(self, hold: HoldName, caller: str | None) -> Done | Refused:
        """The hold as it stands now; a foreign one is not-found."""
        return await self._decide("read_hold", hold.sku_id, hold.id, caller)

    async def put_sku(self, name: str, settings: SkuSettings, actor: str) -> Done | Refused:
        """Create the SKU with its stock, or change its rules and total; the document's `outcome` is a Put.

        The same settings twice change nothing.
        """
        put = _rules(name, settings)
        seats = None if settings.seats is None else _text(put["seats"])
        (row,) = await self._put("create_sku", _text(put["rules"]), seats, actor, new_operation_id())
        return Answer(row["outcome"], row["answer"]).judged()

    async def import_skus(self, skus: Mapping[str, SkuSettings], actor: str) -> list[tuple[str, Put]] | Refused:
        """Put several SKUs, all or none: what became of each, or the refusal of the first that cannot be put."""
        puts = _text([_rules(name, settings) for name, settings in skus.items()])
        done: list[tuple[str, Put]] = []
        for row in await self._put("import_skus", puts, actor, new_operation_id()):
            outcome = Answer(row["outcome"], row["answer"]).judged()
            if isinstance(outcome, Refused):
                return outcome
            document = msgspec.json.decode(outcome.document, type=_PutDocument)
            done.append((document.sku, document.outcome))
        return done

    async def _put(self, verb: str, *arguments: object) -> list[asyncpg.Record]:
        """Call a seller's verb; where only due, unswept holds stand in a smaller total's way, expire those and call again."""
        for _ in range(RECLAIMS_MAX):
            rows = await self._verbs.call(verb, *arguments)
            if not rows or rows[-1]["outcome"] != "reclaim":
                return rows
            sku_id = orjson.loads(rows[-1]["answer"])["sku_id"]
            await self.expire_due(sku_id, limit=RECLAIM_BATCH, skip_locked=False, actor="seller")
        raise busy("Units are coming back and going again faster than the total could be changed. Try again.")

    async def adjust(self, sku_id: int, change: AdjustBody, actor: str, keyed: Keyed) -> Done | Refused:
        """Change the SKU's total as its source says. A repeat with the key returns the first answer, replayed."""
        (row,) = await self._put(
            "adjust", sku_id, change.kind, change.quantity, TOTAL_MAX, change.if_short == "accept", change.source,
            change.reason, change.occurred_at, actor, keyed.slot, keyed.fingerprint,
            new_operation_id(), new_operation_id(),
        )  # fmt: skip
        return Answer(row["outcome"], row["answer"]).judged()

    async def halt(self, sku_id: int, state: Literal["halted", "on_sale"], reason: str, actor: str) -> Done | Refused:
        """Halt the SKU's sale at once, or let it go on; what is held may be paid, confirmed and released all the while."""
        return await self._decide("halt", sku_id, state, reason, actor, new_operation_id())

    async def find_sku(self, name: str) -> Sku | None:
        """The SKU with that name, or None."""
        rows = await self._verbs.call("find_sku", name)
        if not rows:
            return None
        rules = orjson.loads(rows[0]["rules"])
        known = {field: rules[field] for field in SkuSettings.__struct_fields__ if field in rules}
        return Sku(
            rows[0]["id"], name, rows[0]["kind"], rows[0]["room"], msgspec.convert(known, SkuSettings, strict=False)
        )

    async def levels(self, names: Sequence[str] | None = None) -> list[Level]:
        """What is left, by name; unknown names are left out."""
        return [Level(**row) for row in await self._verbs.call("stock_level", names)]

    async def left_for_rooms(self) -> list[tuple[str, int, int]]:
        """(room, free, held) of each room whose SKUs are on sale or have ended."""
        return [(row["room"], row["free"], row["held"]) for row in await self._verbs.call("room_stock")]

    async def seats(self, sku_id: int) -> list[asyncpg.Record]:
        """The seat map: seat, section, row, number, tier, x, y, state; due, unswept holds read as available."""
        return await self._verbs.call("seat_map", sku_id)

    async def expire_due(
        self,
        sku_id: int | None = None,
        *,
        limit: int = RECLAIM_BATCH,
        skip_locked: bool = True,
        actor: str = "sweep",
        after: DueHold | None = None,
    ) -> Expired:
        """End holds that are past their deadline: of the SKU, or of all behind `after`; at most `limit` are looked at."""
        last = (after.expires_at, after.id) if after else (None, None)
        (row,) = await self._verbs.call("expire_due", sku_id, limit, skip_locked, actor, *last)
        more = row["seen"] == limit
        return Expired(
            row["holds"], row["units"], row["locked"], row["torn"],
            DueHold(row["last_at"], row["last_id"]) if more else None,
        )  # fmt: skip

    async def prune(self, sku_id: int, before: datetime, limit: int) -> int:
        """Forget at most `limit` of the SKU's keys older than `before` (at least 24 hours) whose hold has ended; how many."""
        (row,) = await self._verbs.call("prune", sku_id, before, limit)
        return int(row["pruned"])

    async def rebalance(self, sku_id: int, tolerance: int, actor: str = "reconciler") -> int:
        """Even out the SKU's sub-counters unless all are within `tolerance` units of their share; the units moved."""
        (row,) = await self._verbs.call("rebalance", sku_id, tolerance, actor, new_operation_id())
        return int(row["moved"])

    async def repair(self, level: Level, *, dry_run: bool, actor: str) -> list[Repair]:
        """Make counters and seats agree with holds, sales and ledger again; what needs a person is told, not done."""
        rows = await self._verbs.call("repair", level.id, dry_run, new_operation_id(), actor)
        return [Repair(level.name, **row) for row in rows]

    async def audit(self, level: Level) -> list[Disagreement]:
        """Where I1, I2, I4, I5 or I9 do not hold for the SKU, recomputed from their own rows; nothing when they do."""
        rows = await self._verbs.call("audit", level.id)
        return [Disagreement(level.name, **row) for row in rows]

    async def paying_holds(
        self, *, overdue_only: bool, limit: int = 1000, after: PayingHold | None = None
    ) -> list[PayingHold]:
        """Holds that wait for their payment, those behind `after`: unasked ones first, then the longest overdue."""
        last = (after.stuck_since, after.paying_until, after.id) if after else (None, None, None)
        return [PayingHold(**row) for row in await self._verbs.call("paying_holds", overdue_only, limit, *last)]

    async def _in_lane(self, verb: str, hold: HoldName, arguments: tuple[object, ...]) -> Done | Refused:
        answer = await self._lanes.ask(verb, hold.sku_id, hold.id, arguments)
        return answer.judged()

    async def _decide(self, verb: str, *arguments: object) -> Done | Refused:
        return (await self._verbs.decide(verb, *arguments)).judged()


class _PutDocument(msgspec.Struct, frozen=True):
    sku: str
    outcome: Put


def _rules(name: str, settings: SkuSettings) -> dict[str, object]:
    rules = msgspec.to_builtins(settings) | {"name": name}
    return {"seats": rules.pop("seats"), "rules": rules}


def _text(value: object) -> str:
    return orjson.dumps(value).decode()
