"""What a run of the engine's bench says (pure): rows, ratios with their bars, the floor and the audit, as JSON and as tables."""

from collections.abc import Mapping
from dataclasses import asdict, replace

from rich.console import Group
from rich.table import Table

from loadtest.bench.engine import Measured, describe
from loadtest.bench.figures import Sample, median
from loadtest.bench.plan import EngineSettings, Variant
from loadtest.bench.soak import Soaked
from loadtest.strategies.strategy import StrategyName

Document = dict[str, object]
Ratio = dict[str, object]
NAIVE: StrategyName = "naive"


def engine_document(machine: Mapping[str, object], settings: EngineSettings, measured: Measured) -> Document:
    """The run as one JSON object."""
    medians = measured.medians()
    return {
        "machine": dict(machine),
        "settings": asdict(settings) | {"commit_ms_is_simulated": "commit_delay, with commit_siblings = 0"},
        "rows": [
            asdict(variant)
            | asdict(sample)
            | {"rounds": len(measured.samples[variant]), "faults": len(measured.faults[variant])}
            for variant, sample in medians.items()
        ],
        "ratios": ratios(medians),
        "floor": {name: asdict(median(samples)) for name, samples in measured.floor.items()},
        "audit": audit_document(measured),
    }


def audit_document(measured: Measured) -> Document:
    """What the rows say after each variant."""
    faults = honest_faults(measured)
    naive = [len(found) for variant, found in measured.faults.items() if variant.strategy == NAIVE]
    return {
        "clean": not faults,
        "faults": faults,
        "naive_faults": sum(naive),
        "sold_out": {name: asdict(one) for name, one in measured.sold_out.items()},
    }


def honest_faults(measured: Measured) -> list[str]:
    """Every disagreement between rows and answers, but for those of `naive`, which is there to fail."""
    loaded = [(variant.strategy, found) for variant, found in measured.faults.items()]
    rushed = [(name, list(one.faults)) for name, one in measured.sold_out.items()]
    return [f"{name}: {fault}" for name, found in loaded + rushed if name != NAIVE for fault in found]


def ratios(medians: Mapping[Variant, Sample]) -> dict[str, Ratio]:
    """Who is how much faster, with the bar where there is one; what was not measured is left out."""
    plain = {one: sample for one, sample in medians.items() if (one.commit_ms, one.history, one.hot) == (0, 0, 1)}
    batched = _best(plain, "batched")
    pairs: list[tuple[str, float, float, float | None]] = [
        ("batched / sharded, each at its best", batched, _best(plain, "sharded"), 6.0),
        ("batched / cas-row", batched, _best(plain, "cas-row"), 15.0),
    ]
    for commit_ms in sorted({variant.commit_ms for variant in medians}):
        alike = {one: sample for one, sample in medians.items() if one.commit_ms == commit_ms}
        single = {one: sample for one, sample in alike.items() if one.shards == 1}
        several = {one: sample for one, sample in alike.items() if one.shards > 1}
        name = f"sharded, best N / N = 1, commits + {commit_ms} ms"
        pairs.append((name, _best(several, "sharded"), _best(single, "sharded"), {0: 2.0, 1: 5.0}.get(commit_ms)))
    for variant, sample in medians.items():
        if variant.strategy == "batched" and variant.history:
            empty = _rate(medians, replace(variant, history=0))
            pairs.append(("batched, filled / empty history", sample.per_second, empty, 0.9))
    widest = max((one for one in plain if one.strategy == "batched"), key=lambda one: one.shards, default=None)
    if widest is not None and widest.shards > 1:
        single_row = _rate(plain, replace(widest, shards=1))
        pairs.append((f"batched, N = {widest.shards} / N = 1", _rate(plain, widest), single_row, 0.9))
    return {name: _ratio(above / below, bar) for name, above, below, bar in pairs if above and below}


def _best(medians: Mapping[Variant, Sample], strategy: StrategyName) -> float:
    return max((sample.per_second for one, sample in medians.items() if one.strategy == strategy), default=0.0)


def _rate(medians: Mapping[Variant, Sample], variant: Variant) -> float:
    return medians[variant].per_second if variant in medians else 0.0


def _ratio(value: float, bar: float | None) -> Ratio:
    return {"value": round(value, 2), "bar": bar, "met": None if bar is None else value >= bar}


def engine_tables(measured: Measured) -> Group:
    """The run as tables for a person."""
    medians = measured.medians()
    rows = Table("variant", "holds/s", "p50 ms", "p99 ms", "refused", "errors", "books", title="Holds, closed loop")
    for variant, sample in medians.items():
        wrong = len(measured.faults[variant])
        rows.add_row(
            describe(variant),
            f"{sample.per_second:,.0f}", f"{sample.p50_ms:,.1f}", f"{sample.p99_ms:,.1f}",
            f"{sample.refused:,}", f"{sample.errors:,}",
            f"[red]{wrong} faults[/]" if wrong else "[green]balance[/]",
        )  # fmt: skip
    return Group(rows, ratio_table(ratios(medians)), _floor_table(measured), _sold_out_table(measured))


def soak_table(soaked: Soaked) -> Table:
    """Throughput over time, the worst window against the first."""
    table = Table("what", "figure", title="Soak: batched, an old snapshot open, audits beside the load")
    table.add_row("first window", f"{soaked.windows[0]:,.0f} holds/s")
    table.add_row("worst window", f"{min(soaked.windows):,.0f} holds/s ({soaked.worst_to_first:.0%} of the first)")
    table.add_row("over all", f"{soaked.sample.per_second:,.0f} holds/s, p99 {soaked.sample.p99_ms:,.1f} ms")
    table.add_row("audits", f"{soaked.audits:,}, with {len(soaked.faults):,} faults")
    return table


def ratio_table(found: Mapping[str, Ratio]) -> Table:
    """Ratios beside their bars."""
    table = Table("ratio", "value", "bar", "met", title="Ratios")
    for name, ratio in found.items():
        bar, met = ratio["bar"], ratio["met"]
        table.add_row(name, str(ratio["value"]), "" if bar is None else f"≥ {bar}", met_word(met))
    return table


def met_word(met: object) -> str:
    """Whether a bar is met, in a word; nothing where there is none."""
    return "" if met is None else "[green]yes[/]" if met else "[red]no[/]"


def _floor_table(measured: Measured) -> Table:
    table = Table("floor", "a second", "p50 ms", "p99 ms", title="This machine's floor in the same run")
    for name, samples in measured.floor.items():
        one = median(samples)
        table.add_row(name, f"{one.per_second:,.0f}", f"{one.p50_ms:,.2f}", f"{one.p99_ms:,.2f}")
    return table


def _sold_out_table(measured: Measured) -> Table:
    table = Table("strategy", "stock", "tries", "granted", "oversold", "books", title="A rush for too little stock")
    for name, one in measured.sold_out.items():
        over = f"[red]{one.oversold:,}[/]" if one.oversold else "0"
        books = f"[red]{len(one.faults)} faults[/]" if one.faults else "[green]balance[/]"
        table.add_row(name, f"{one.stock:,}", f"{one.tries:,}", f"{one.granted:,}", over, books)
    return table
