"""What a run of the HTTP bench says (pure): rows beside their bars, scaled where this machine's floor is lower, and the audit."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from rich.console import Group
from rich.table import Table

from loadtest.bench.figures import Sample
from loadtest.bench.http import HttpMeasured, HttpSettings, Row, What, describe_row
from loadtest.bench.report import Document, Ratio, met_word, ratio_table

REFERENCE_FLOOR = 55_425.0  # no-op requests a second of one worker on the machine that the bars are for
BAR_PER_SECOND = 12_000.0
BAR_P99_MS = 30.0
BAR_IDLE_MS = 2.0
BARRED: tuple[What, ...] = ("reserve", "reserve, pass at first sight", "confirm", "release", "refuse")


@dataclass(frozen=True, slots=True)
class Bar:
    """What a row must reach on this machine: a least rate, or a longest time in milliseconds (`figure` says which)."""

    figure: str
    limit: float
    met: bool

    def __str__(self) -> str:
        return f"≥ {self.limit:,.0f}/s" if self.figure == "per_second" else f"{self.figure[:3]} < {self.limit:,.1f} ms"


def floor_scale(medians: Mapping[Row, Sample]) -> float:
    """How much of the reference machine's floor this one has, at most 1; 1 where it was not measured."""
    floor = next((s.per_second for row, s in medians.items() if (row.what, row.workers) == ("no-op", 1)), 0.0)
    return min(1.0, floor / REFERENCE_FLOOR) if floor else 1.0


def bar_of(row: Row, sample: Sample, scale: float) -> Bar | None:
    """The row's bar, scaled; None where it has none."""
    if row.what not in BARRED:
        return None
    if row.way == "closed":
        limit = BAR_PER_SECOND * scale
        return Bar("per_second", round(limit, 1), sample.per_second >= limit)
    if row.way == "open 80 %":
        limit = BAR_P99_MS / scale
        return Bar("p99_ms", round(limit, 2), sample.p99_ms < limit)
    if row.way == "one connection":
        limit = BAR_IDLE_MS / scale
        return Bar("p50_ms", round(limit, 2), sample.p50_ms < limit)
    return None


def http_ratios(medians: Mapping[Row, Sample]) -> dict[str, Ratio]:
    """Our reserve beside a bare Redis decrement and beside doing nothing, each at its best number of workers."""
    best: dict[What, float] = {}
    for row, sample in medians.items():
        if row.way == "closed":
            best[row.what] = max(best.get(row.what, 0.0), sample.per_second)
    found: dict[str, Ratio] = {}
    others: tuple[tuple[What, float | None], ...] = (("redis decrement", 1.0), ("no-op", None))
    for other, bar in others:
        if best.get("reserve") and best.get(other):
            value = best["reserve"] / best[other]
            met = None if bar is None else value >= bar
            found[f"reserve / {other}, each at its best"] = {"value": round(value, 2), "bar": bar, "met": met}
    return found


def http_document(machine: Mapping[str, object], settings: HttpSettings, measured: HttpMeasured) -> Document:
    """The run as one JSON object."""
    medians = measured.medians()
    scale = floor_scale(medians)
    rows = []
    for row, sample in medians.items():
        bar = bar_of(row, sample, scale)
        rows.append(asdict(row) | asdict(sample) | {"bar": None if bar is None else asdict(bar)})
    return {
        "machine": dict(machine),
        "settings": asdict(settings) | {"reference_floor": REFERENCE_FLOOR, "bars_scaled_by": round(scale, 3)},
        "rows": rows,
        "ratios": http_ratios(medians),
        "floor": [asdict(row) | asdict(sample) for row, sample in medians.items() if row.what not in BARRED],
        "audit": {
            "clean": not measured.faults,
            "faults": measured.faults,
            "told": measured.told,
            "unheard_max": measured.unheard,
        },
    }


def http_tables(measured: HttpMeasured) -> Group:
    """The run as tables for a person."""
    medians = measured.medians()
    scale = floor_scale(medians)
    rows = Table("call", "a second", "p50 ms", "p99 ms", "refused", "errors", "bar", "met")
    rows.title = f"The stock API over HTTP; bars × {scale:.2f} for this machine's floor"
    for row, sample in medians.items():
        bar = bar_of(row, sample, scale)
        rows.add_row(
            describe_row(row), f"{sample.per_second:,.0f}", f"{sample.p50_ms:,.2f}", f"{sample.p99_ms:,.2f}",
            f"{sample.refused:,}", f"{sample.errors:,}",
            "" if bar is None else str(bar), met_word(None if bar is None else bar.met),
        )  # fmt: skip
    return Group(rows, ratio_table(http_ratios(medians)))
