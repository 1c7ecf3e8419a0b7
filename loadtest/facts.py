"""The service's side of a run, as its own rows tell it: levels, sales, holds, audit and admissions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SkuFacts:
    """One SKU counted three times over: what was stated, what its counters or seats say, what holds and sales say."""

    sku: str
    kind: str
    total: int
    allowance: int
    counted_total: int
    counted_held: int
    counted_sold: int
    units_held: int
    units_sold: int
    units_recycled: int


@dataclass(frozen=True, slots=True)
class SoldUnits:
    """What one sale sold of one SKU."""

    sale: str
    hold: str
    sku: str
    units: int
    seats: tuple[str, ...]
    cancelled: bool


@dataclass(frozen=True, slots=True)
class Admission:
    """One pass: `at` is the second (Unix time) in which it was given."""

    ticket_id: str
    jti: str
    at: int


@dataclass(frozen=True, slots=True)
class RateSpan:
    """From `since` (Unix seconds) until the next span the room lets in `rate_per_minute`."""

    since: float
    rate_per_minute: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """All of it. `disagreements` are the lines of the audit; `rates` start with the opening, before it nobody enters."""

    skus: tuple[SkuFacts, ...]
    sales: tuple[SoldUnits, ...]
    disagreements: tuple[str, ...]
    admissions: tuple[Admission, ...]
    rates: tuple[RateSpan, ...]
