"""Closed-loop load inside one process: what callers were told, and how long each answer took."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import asyncpg

from chassis.problems import Problem
from counters.rules import Done, Refused
from loadtest.bench.figures import Sample, percentile

Call = Callable[[int], Awaitable[Done | Refused | None]]


@dataclass(slots=True)
class Tally:
    """What callers were told, latencies in seconds. Counts grow while the load runs."""

    latencies: list[float] = field(default_factory=list)
    granted: int = 0
    refused: int = 0
    errors: int = 0

    def count(self, outcome: Done | Refused | None) -> None:
        """Count one answer; None is that of something that grants nothing."""
        if isinstance(outcome, Refused):
            self.refused += 1
        elif outcome is not None:
            self.granted += 1


async def closed_loop(call: Call, *, tasks: int, seconds: float, tally: Tally) -> Sample:
    """`tasks` callers, each calling again once it is answered; `call` is given a number of its own each time.

    The rate is that of all calls sent within `seconds`, over the time until the last of them was answered.
    """
    numbers = iter(range(1 << 62))
    started = time.perf_counter()

    async def caller() -> None:
        while time.perf_counter() < started + seconds:
            await _timed(call, next(numbers), tally)

    await asyncio.gather(*(caller() for _ in range(tasks)))
    return sample(tally, len(tally.latencies) / (time.perf_counter() - started))


async def tries(call: Call, *, tasks: int, many: int, tally: Tally) -> None:
    """So many calls in all, `tasks` at once."""
    numbers = iter(range(many))

    async def caller() -> None:
        for number in numbers:
            await _timed(call, number, tally)

    await asyncio.gather(*(caller() for _ in range(tasks)))


async def _timed(call: Call, number: int, tally: Tally) -> None:
    """One call into the tally."""
    sent_at = time.perf_counter()
    try:
        outcome = await call(number)
    except (Problem, asyncpg.PostgresError, TimeoutError):
        tally.errors += 1
        return
    tally.latencies.append(time.perf_counter() - sent_at)
    tally.count(outcome)


def sample(tally: Tally, per_second: float) -> Sample:
    """A tally as a sample."""
    ordered = sorted(tally.latencies)
    return Sample(
        round(per_second, 1),
        round(percentile(ordered, 0.50) * 1000, 3),
        round(percentile(ordered, 0.99) * 1000, 3),
        tally.refused,
        tally.errors,
    )
