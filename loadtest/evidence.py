"""Reads the service's side of a run from its own rows, each figure where it is written down."""

from collections.abc import Sequence

from chassis.database import Pool, read_text
from counters.store import Stock
from loadtest.facts import Admission, Evidence, RateSpan, SkuFacts, SoldUnits


async def read_evidence(pool: Pool, room: str, skus: Sequence[str]) -> Evidence:
    """The evidence on `skus`, sold through `room`. The run must have come to rest, and the room's rate never changed."""
    stock = Stock(pool)
    names = list(skus)
    facts = [SkuFacts(**row) for row in await pool.fetch(_sql("sku_facts.sql"), names)]
    sold = [
        SoldUnits(**{**row, "seats": tuple(row["seats"])}) for row in await pool.fetch(_sql("sold_units.sql"), names)
    ]
    faults = [fault for level in await stock.levels(names) for fault in await stock.audit(level)]
    admissions = [Admission(**row) for row in await pool.fetch(_sql("admissions.sql"), room)]
    rates = [RateSpan(**row) for row in await pool.fetch(_sql("room_rate.sql"), room)]
    return Evidence(
        skus=tuple(facts),
        sales=tuple(sold),
        disagreements=tuple(
            f"{fault.invariant} {fault.sku}, {fault.place}: {fault.what}: {fault.recorded}, should be {fault.expected}"
            for fault in faults
        ),
        admissions=tuple(admissions),
        rates=tuple(rates),
    )


def _sql(name: str) -> str:
    return read_text("loadtest", "sql", name)
