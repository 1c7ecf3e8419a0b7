"""The verdict on a run: what the shoppers were promised against what the service's own rows say. Pure.

Each check names the faults it found, so that a failing verdict says what to look at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.facts import Evidence
from loadtest.line_checks import admissions_keep_the_rate, nobody_before_opening, one_pass_a_turn, places_only_improve
from loadtest.outcome import Check
from loadtest.promise_checks import holds_kept_until_deadline, keys_have_one_effect, sales_kept
from loadtest.records import Answered, Ended, Record
from loadtest.stock_checks import audit_is_clean, no_seat_twice, nothing_lost, nothing_oversold, units_came_back


@dataclass(frozen=True, slots=True)
class VerdictSettings:
    """What is asked of the run besides correctness: with `shoppers`, that so many walked to the end of their road."""

    shoppers: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The checks in the order in which they are shown."""

    rows: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise held."""
        return all(check.ok for check in self.rows)


def judge(evidence: Evidence, records: Sequence[Record], settings: VerdictSettings) -> Verdict:
    """The verdict on a run that has come to rest: nobody shops any more while the evidence is read."""
    checks = [
        nothing_oversold(evidence),
        no_seat_twice(evidence),
        sales_kept(evidence, records),
        keys_have_one_effect(records),
        holds_kept_until_deadline(records),
        nothing_lost(evidence),
        units_came_back(evidence),
        audit_is_clean(evidence),
        nobody_before_opening(evidence),
        admissions_keep_the_rate(evidence),
        one_pass_a_turn(records),
        places_only_improve(records),
        reserve_times(records),
    ]
    if settings.shoppers is not None:
        checks.append(everybody_walked(records, settings.shoppers))
    return Verdict(tuple(checks))


def everybody_walked(records: Sequence[Record], shoppers: int) -> Check:
    """Whether as many shoppers as were sent came to the end of their road: a verdict on nobody proves nothing."""
    ended = sum(isinstance(record, Ended) for record in records)
    faults = () if ended == shoppers else (f"{shoppers - ended} shoppers never came to the end of their road",)
    return Check("shoppers at the end of their road", f"{ended:,}", f"{shoppers:,}", faults)


def reserve_times(records: Sequence[Record]) -> Check:
    """How long shoppers waited for the answer to a reserve, decided either way. Shown, not judged."""
    seconds = sorted(
        record.mono - record.sent
        for record in records
        if isinstance(record, Answered) and record.status in (200, 201, 409)
    )
    if not seconds:
        return Check("reserve p50 / p99", "none", "")
    p50, p99 = percentile(seconds, 50) * 1000, percentile(seconds, 99) * 1000
    return Check("reserve p50 / p99", f"{p50:,.0f} / {p99:,.0f} ms", "", note=f"{len(seconds):,} answers")


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of `ordered`, which must be sorted and not empty."""
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]
