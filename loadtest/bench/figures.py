"""What a measurement says, and what several say together (pure)."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: calls answered, a second; and how long they took, in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float
    refused: int = 0
    errors: int = 0


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of the ordered values lies (nearest rank); 0 when there are none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def median(samples: Sequence[Sample]) -> Sample:
    """Figure by figure the median; refusals and errors are added up."""
    return Sample(
        statistics.median(one.per_second for one in samples),
        statistics.median(one.p50_ms for one in samples),
        statistics.median(one.p99_ms for one in samples),
        sum(one.refused for one in samples),
        sum(one.errors for one in samples),
    )
