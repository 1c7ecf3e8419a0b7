"""How fast a line has really moved (pure): readings of how far it was called, and the waits that follow from them.

A wait told from what is configured is a promise; one told from the last minutes is what happened. Readings count only
while people waited in an open room: neither a pause nor a line without anybody in it says how long a place takes.
"""

from dataclasses import dataclass
from math import ceil, sqrt

KEPT_MS = 300_000
APART_MS = 5_000
WINDOW_MS_MIN, WINDOW_MS_MAX = 10_000, 60_000
WINDOW_CALLS = 20
WINDOWS_MIN = 3
RECENT_MS = 60_000
SLOWED_SHARE = 0.8
UNMEASURED_MARGIN, MEASURED_MARGIN = 1.5, 1.1
SLOWEST_SHARE = 1 / 3  # of the mean: what a window in which nobody was called counts as


@dataclass(frozen=True, slots=True)
class Reading:
    """At `at_ms` the line had come to `called`; `flowing` when people waited in an open room."""

    at_ms: float
    called: int
    flowing: bool


@dataclass(frozen=True, slots=True)
class Outflow:
    """The readings of the last five minutes under one rate; `slowed_at_ms` when an operator last lowered it."""

    readings: tuple[Reading, ...] = ()
    rate_per_minute: int = 0
    slowed_at_ms: float | None = None

    def noted(self, reading: Reading, rate_per_minute: int) -> "Outflow":
        """With one more reading. Another rate begins anew: what the old one gave says nothing about the next minutes."""
        if rate_per_minute != self.rate_per_minute:
            slowed = reading.at_ms if rate_per_minute < self.rate_per_minute else None
            return Outflow((reading,), rate_per_minute, slowed)
        if self.readings:
            last = self.readings[-1]
            if reading.flowing == last.flowing and reading.at_ms < last.at_ms + APART_MS:
                return self
        oldest_ms = reading.at_ms - KEPT_MS
        kept = tuple(known for known in self.readings if known.at_ms >= oldest_ms)
        return Outflow((*kept, reading), rate_per_minute, self.slowed_at_ms)


UNSEEN = Outflow()


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that a place takes, from `low` to `high`; `per_minute` is how many were called, None before it was measured."""

    low: float
    high: float
    per_minute: float | None

    def wait_seconds(self, ahead: int) -> tuple[int, int]:
        """The wait of somebody with `ahead` people before them, counted from now or from when the line goes on."""
        return int((ahead + 1) * self.low), ceil(round((ahead + 1) * self.high, 3))


def pace_of(outflow: Outflow, rate_per_minute: int) -> Pace | None:
    """What a place takes by the last minutes, by the configured rate before enough is known, None when nothing moved."""
    windows = _windows(outflow)
    if len(windows) < WINDOWS_MIN or outflow.rate_per_minute != rate_per_minute:
        return Pace(60 / rate_per_minute, 60 / rate_per_minute * UNMEASURED_MARGIN, None)
    calls, elapsed_ms = sum(window[0] for window in windows), sum(window[1] for window in windows)
    if calls == 0:
        return None
    mean = calls * 60_000 / elapsed_ms
    rates = sorted(window[0] * 60_000 / window[1] for window in windows)
    slow, fast = rates[len(rates) // 10], rates[-1 - len(rates) // 10]
    return Pace(60 / fast, 60 / max(slow, mean * SLOWEST_SHARE) * MEASURED_MARGIN, mean)


def slowed(outflow: Outflow, now_ms: float) -> bool:
    """Whether the line moves slower than it did: by an operator's hand, or in the last minute by what was called."""
    if outflow.slowed_at_ms is not None and now_ms < outflow.slowed_at_ms + KEPT_MS:
        return True
    windows = _windows(outflow)
    recent_ms, recent_calls = 0.0, 0
    while windows and recent_ms < RECENT_MS:
        calls, elapsed_ms = windows.pop()
        recent_ms, recent_calls = recent_ms + elapsed_ms, recent_calls + calls
    before_ms = sum(window[1] for window in windows)
    if before_ms < RECENT_MS:
        return False
    expected = sum(window[0] for window in windows) * recent_ms / before_ms
    return recent_calls + 2 * sqrt(recent_calls) < expected * SLOWED_SHARE  # beyond what chance does


def _windows(outflow: Outflow) -> list[tuple[int, float]]:
    """Calls and milliseconds of each stretch in which the line flowed, long enough that chance does not rule it."""
    long_enough_ms = min(max(WINDOW_CALLS * 60_000 / max(1, outflow.rate_per_minute), WINDOW_MS_MIN), WINDOW_MS_MAX)
    windows: list[tuple[int, float]] = []
    began: Reading | None = None
    for reading in outflow.readings:
        if not reading.flowing or began is None:
            began = reading if reading.flowing else None
        elif reading.at_ms - began.at_ms >= long_enough_ms:
            windows.append((max(0, reading.called - began.called), reading.at_ms - began.at_ms))
            began = reading
    return windows
