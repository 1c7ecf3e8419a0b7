"""The ledger as the only history: its rows get their numbers here, and tell what happened to a SKU or to one hold.

Everything but `number` only reads.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import msgspec

from chassis.database import Pool
from chassis.http import invalid_fields, timestamp
from counters.calls import Verbs
from counters.rules import HoldName
from counters.store import Sku
from counters.stories import HoldFacts, Move, Story, tell_story


@dataclass(frozen=True, slots=True)
class Numbered:
    """What one pass of the sequencer did; `more` when it stopped at its limit."""

    rows: int
    more: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One ledger row under its number: what one move did to one sub-counter (`shard`) or set of seats (shard -1)."""

    number: int
    at: datetime
    verb: str
    hold_id: UUID | None
    shard: int
    seats: list[str] | None
    seat_state: str | None
    total_delta: int
    allowance_delta: int
    held_delta: int
    sold_delta: int
    actor: str
    source: str | None
    occurred_at: datetime | None
    reason: str | None
    operation_id: UUID


@dataclass(frozen=True, slots=True)
class Figures:
    """What a SKU's counters said at a moment."""

    total: int
    allowance: int
    held: int
    sold: int
    available: int


class History:
    """Reads the ledger of one database, and numbers it."""

    def __init__(self, pool: Pool) -> None:
        self._verbs = Verbs(pool)

    async def unsettled(self) -> list[int]:
        """The numbers of the SKUs whose ledgers may have rows without a number."""
        return [row["sku_id"] for row in await self._verbs.call("unsettled_skus")]

    async def number(self, sku_id: int, limit: int) -> Numbered:
        """Number at most `limit` committed ledger rows of the SKU; safe to repeat, and from several processes at once."""
        (row,) = await self._verbs.call("number_ledger", sku_id, limit)
        return Numbered(row["numbered"], row["more"])

    async def entries(self, sku_id: int, after: int, limit: int) -> list[Entry]:
        """The SKU's numbered ledger rows after number `after`, in order."""
        return [Entry(**row) for row in await self._verbs.call("sku_history", sku_id, after, limit)]

    async def as_of(self, sku: Sku, at: datetime) -> Figures:
        """What the SKU's counters said at `at`. Raises Problem invalid for a moment to come or before there was the SKU."""
        ((created_at, now, *figures),) = await self._verbs.call("stock_as_of", sku.id, at)
        if at > now:
            raise invalid_fields([("/as_of", f"lies in the future: it is {timestamp(now)} now")])
        if at < created_at:
            raise invalid_fields([("/as_of", f"{sku.name} was created at {timestamp(created_at)} only")])
        return Figures(*figures)

    async def story(self, hold: HoldName) -> Story | None:
        """What happened to a hold, and what it would answer now; None where there is no such hold."""
        rows = await self._verbs.call("hold_story", hold.sku_id, hold.id)
        if not rows:
            return None
        (row,) = rows
        return tell_story(
            msgspec.json.decode(row["hold"], type=HoldFacts),
            row["sku"],
            msgspec.json.decode(row["moves"], type=tuple[Move, ...]),
            row["sale"],
            row["now"],
        )
