"""Tells the line each second what is left for each room and how busy the stock is. No reserve waits for it or pays for it.

Every worker says how busy it is; one of them, whoever comes first, reads what is left and tells the rooms.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from prometheus_client import Histogram

from admission.stock_teller import Load, StockTeller
from chassis.telemetry import REQUEST_SECONDS
from counters.store import Stock

SLOWEST = 0.95
RESERVE_ROUTE = "reserve"


class StockSignals:
    """One worker's part in it."""

    def __init__(self, stock: Stock, teller: StockTeller) -> None:
        self._stock = stock
        self._teller = teller
        self._counted: Mapping[float, float] = {}

    async def run_once(self) -> int:
        """How many rooms were told: none where another worker has the turn. Raises Problem while a store is away."""
        load = await self._teller.tell_load(Load(self._stock.queue_share, self._latency_ms()))
        if load is None:
            return 0
        rooms = await self._stock.left_for_rooms()
        for room, free, held in rooms:
            await self._teller.tell_stock(room, free, held, load)
        return len(rooms)

    def _latency_ms(self) -> float | None:
        """How slow this worker's reserves were since the last time, from what is counted of them anyway."""
        before, self._counted = self._counted, counted(REQUEST_SECONDS, RESERVE_ROUTE)
        seconds = percentile(
            sorted((edge, count - before.get(edge, 0)) for edge, count in self._counted.items()), SLOWEST
        )
        return None if seconds is None else seconds * 1000


def counted(histogram: Histogram, route: str) -> dict[float, float]:
    """How many of `route`'s answers took at most so many seconds, by the histogram's edges."""
    return {
        float(sample.labels["le"]): sample.value
        for family in histogram.collect()
        for sample in family.samples
        if sample.name.endswith("_bucket") and sample.labels["route"] == route
    }


def percentile(counts: Sequence[tuple[float, float]], share: float) -> float | None:
    """Below what `share` of all lie, from cumulative counts by ascending edges; None where nothing was counted.

    Within a bucket it is interpolated; above the last finite edge it is that edge (as in Prometheus's histogram_quantile).
    """
    if not counts or counts[-1][1] <= 0:
        return None
    rank = share * counts[-1][1]
    for (low, below), (high, reached) in pairwise([(0.0, 0.0), *counts]):
        if reached >= rank:
            return low if high == float("inf") else low + (high - low) * (rank - below) / (reached - below)
    raise AssertionError("the last edge counts all")
