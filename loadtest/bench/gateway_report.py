"""What a run of the gateway's bench says (pure): rows beside their bars, scaled where this machine's floor is lower."""

from collections.abc import Mapping
from dataclasses import asdict

from rich.console import Group
from rich.table import Table

from loadtest.bench.figures import Sample
from loadtest.bench.gateway import GatewayMeasured, GatewayRow, GatewaySettings, What
from loadtest.bench.http_report import REFERENCE_FLOOR, Bar
from loadtest.bench.report import Document, met_word

BARS_PER_SECOND: Mapping[What, float] = {
    "status document": 25_000.0,
    "gate, pass seen before": 15_000.0,
    "gate, pass at first sight": 7_000.0,
    "join": 6_000.0,
    "claim": 4_000.0,
}


def gateway_scale(medians: Mapping[GatewayRow, Sample]) -> float:
    """How much of the reference machine's floor this one has, at most 1; 1 where it was not measured."""
    floor = next((s.per_second for row, s in medians.items() if (row.what, row.workers) == ("no-op", 1)), 0.0)
    return min(1.0, floor / REFERENCE_FLOOR) if floor else 1.0


def gateway_bar(row: GatewayRow, sample: Sample, scale: float) -> Bar | None:
    """The row's bar, scaled: bars are for one worker."""
    if row.workers != 1 or row.what not in BARS_PER_SECOND:
        return None
    limit = BARS_PER_SECOND[row.what] * scale
    return Bar("per_second", round(limit, 1), sample.per_second >= limit)


def gateway_document(machine: Mapping[str, object], settings: GatewaySettings, measured: GatewayMeasured) -> Document:
    """The run as one JSON object."""
    medians = measured.medians()
    scale = gateway_scale(medians)
    rows = []
    for row, sample in medians.items():
        bar = gateway_bar(row, sample, scale)
        rows.append(asdict(row) | asdict(sample) | {"bar": None if bar is None else asdict(bar)})
    return {
        "machine": dict(machine),
        "settings": asdict(settings) | {"reference_floor": REFERENCE_FLOOR, "bars_scaled_by": round(scale, 3)},
        "rows": rows,
        "facts": [asdict(fact) | {"met": fact.met} for fact in measured.facts],
        "ratios": {},
        "audit": {
            "clean": not measured.faults,
            "faults": measured.faults,
            "joined": measured.joined,
            "admitted": measured.admitted,
            "unheard_max": measured.unheard,
        },
    }


def gateway_tables(measured: GatewayMeasured) -> Group:
    """The run as tables for a person."""
    medians = measured.medians()
    scale = gateway_scale(medians)
    rows = Table("call", "workers", "a second", "p50 ms", "p99 ms", "errors", "bar", "met")
    rows.title = f"The gateway over HTTP; bars × {scale:.2f} for this machine's floor"
    for row, sample in medians.items():
        bar = gateway_bar(row, sample, scale)
        rows.add_row(
            row.what, str(row.workers), f"{sample.per_second:,.0f}", f"{sample.p50_ms:,.2f}", f"{sample.p99_ms:,.2f}",
            f"{sample.errors:,}", "" if bar is None else str(bar), met_word(None if bar is None else bar.met),
        )  # fmt: skip
    draws = Table("what", "value", "bar", "met", title="The draw, and what a waiter costs")
    for fact in measured.facts:
        draws.add_row(fact.what, f"{fact.value:,.2f} {fact.unit}", f"< {fact.limit:,.0f}", met_word(fact.met))
    return Group(rows, draws)
