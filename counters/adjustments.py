"""What sellers change about a SKU in sale: what they may ask, what they have changed, and the incidents that this may leave."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec

from chassis.database import Pool
from chassis.moments import Moment, keep_in_utc
from counters.calls import Verbs
from counters.rules import PLAIN, TOTAL_MAX, Reason

IncidentState = Literal["open", "closed"]


class AdjustBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /admin/skus/{sku}/adjustments: what a source says of a total. A recount is of all units, held and sold included."""

    kind: Literal["increase", "reduce", "recount"]
    quantity: Annotated[int, msgspec.Meta(ge=0, le=TOTAL_MAX)]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=PLAIN)]
    reason: Reason
    occurred_at: Moment | None = None
    if_short: Literal["refuse", "accept"] = "refuse"

    def __post_init__(self) -> None:
        keep_in_utc(self, "occurred_at")
        if self.quantity == 0 and self.kind != "recount":
            raise ValueError("quantity must be at least 1: only a recount may find nothing")


class ReasonBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /admin/skus/{sku}/halt and /resume."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Adjustment:
    """One change of a total by `delta` units; `short` more were asked for and are promised to buyers already."""

    id: UUID
    kind: str
    at: datetime
    delta: int
    short: int
    incident: UUID | None
    source: str
    reason: str
    occurred_at: datetime | None
    actor: str


@dataclass(frozen=True, slots=True)
class SourceSum:
    """By how many units one source has changed a SKU's total in all."""

    source: str
    delta: int
    adjustments: int


@dataclass(frozen=True, slots=True)
class Incident:
    """`quantity` units are promised to buyers and do not exist: a person has to act."""

    id: UUID
    sku: str
    kind: str
    state: IncidentState
    quantity: int
    adjustment: UUID
    source: str
    reason: str
    opened_by: str
    opened_at: datetime


class Adjustments:
    """Reads adjustments and incidents; `Stock.adjust` makes them."""

    def __init__(self, pool: Pool) -> None:
        self._verbs = Verbs(pool)

    async def latest(self, sku_id: int, before: UUID | None, limit: int) -> list[Adjustment]:
        """The SKU's adjustments, newest first; only those older than `before` where it is given."""
        return [Adjustment(**row) for row in await self._verbs.call("adjustments", sku_id, before, limit)]

    async def by_source(self, sku_id: int) -> list[SourceSum]:
        """What each source has changed in all."""
        return [SourceSum(**row) for row in await self._verbs.call("adjusted_by_source", sku_id)]

    async def incidents(self, sku_id: int | None, state: IncidentState | None, limit: int) -> list[Incident]:
        """Incidents, newest first: of one SKU or of all, in one state or in any."""
        return [Incident(**row) for row in await self._verbs.call("incidents", sku_id, state, limit)]
