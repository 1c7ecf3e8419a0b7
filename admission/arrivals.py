"""What is known of who comes when called (pure): how many of the called show up, and how long after their call.

Places are followed in cohorts that were called at about the same moment. Ages are measured by the room's turn clock,
which stands still while the room refuses. Nobody is followed by name.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import msgspec

# Upper edges of the ages (seconds since the call) at which showing up is counted; the last is the longest turn.
EDGES_SECONDS = (0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 3600)
PRIOR_CALLS = 5.0  # how many calls the assumption weighs: everybody shows up, after three seconds on average
PRIOR_DELAY_SECONDS = 3.0
MEMORY_CALLS_MIN, MEMORY_SECONDS = (
    60.0,
    12.0,
)  # how many calls are remembered, or how many seconds of them if that is more
SHARE_MIN = 0.05  # the line is never called more than twenty times as fast as people are let in
# Cohorts older than … seconds are kept as one for each … seconds.
GRAINS_SECONDS = ((0, 0.5), (6, 2), (24, 8), (96, 32), (384, 128))


class Cohort(msgspec.Struct, frozen=True, array_like=True):
    """The places from the cohort before up to `called`, called at `clock_ms` of the turn clock; `shown` of them came."""

    called: int
    clock_ms: int
    shown: int


class Profile(msgspec.Struct, frozen=True):
    """For each age: how many called places passed through it, and how many of them showed up in it, old ones fading."""

    passed: tuple[float, ...] = (0.0,) * len(EDGES_SECONDS)
    shown: tuple[float, ...] = (0.0,) * len(EDGES_SECONDS)

    def shares(self) -> tuple[float, ...]:
        """The share of all called places that shows up at each age."""
        return tuple(
            (shown + PRIOR_CALLS * prior) / (passed + PRIOR_CALLS)
            for shown, passed, prior in zip(self.shown, self.passed, PRIOR_SHARES, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a profile says about a turn of a given length."""

    shares: tuple[float, ...]
    turn_seconds: float

    @property
    def show_share(self) -> float:
        """The share of the called who show up within their turn, between SHARE_MIN and 1."""
        return max(SHARE_MIN, self.shown_by(self.turn_seconds))

    @property
    def delay_seconds(self) -> float:
        """How long those who show up take, on average."""
        total = weighed = 0.0
        for low, high, share in zip(_LOWS, EDGES_SECONDS, self.shares, strict=True):
            if low < self.turn_seconds:
                total += share
                weighed += share * (low + min(high, self.turn_seconds)) / 2
        return weighed / total if total else 0.0

    def shown_by(self, age_seconds: float) -> float:
        """The share of the called who have shown up at this age."""
        age_seconds = min(age_seconds, self.turn_seconds)
        total = 0.0
        for low, high, share in zip(_LOWS, EDGES_SECONDS, self.shares, strict=True):
            if age_seconds <= low:
                break
            total += share * min(1.0, (age_seconds - low) / (high - low))
        return min(1.0, total)

    def to_come(self, cohorts: Sequence[Cohort], over: int, clock_ms: int) -> float:
        """How many of the called who have not shown up yet still will."""
        expected = 0.0
        in_all = self.shown_by(self.turn_seconds)
        below = over
        for cohort in cohorts:
            missing = max(0, cohort.called - max(below, over) - cohort.shown)
            by_now = self.shown_by((clock_ms - cohort.clock_ms) / 1000)
            below = cohort.called
            expected += missing * (in_all - by_now) / max(1e-9, 1.0 - by_now) if by_now < in_all else 0.0
        return expected


def learn(
    profile: Profile,
    cohorts: Sequence[Cohort],
    shown: Sequence[int],
    over: int,
    clocks_ms: tuple[int, int],
    rate: float,
) -> Profile:
    """The profile after another step, from the first to the second of `clocks_ms`, in which `shown` of each cohort had come.

    `rate` is how many were called a minute: the more, the more of them are remembered.
    """
    passed_now, shown_now = [0.0] * len(EDGES_SECONDS), [0.0] * len(EDGES_SECONDS)
    below = over
    for cohort, shown_of in zip(cohorts, shown, strict=True):
        places = max(0, cohort.called - max(below, over))
        below = cohort.called
        ages = tuple(max(0.0, (clock_ms - cohort.clock_ms) / 1000) for clock_ms in clocks_ms)
        _pass_through(passed_now, places, ages[0], ages[1])
        if ages[0] < EDGES_SECONDS[-1]:
            shown_now[_bucket((ages[0] + ages[1]) / 2)] += max(0, shown_of - cohort.shown)
    memory = max(MEMORY_CALLS_MIN, rate / 60 * MEMORY_SECONDS)
    fading = [exp(-passed / memory) for passed in passed_now]
    return Profile(
        tuple(round(old * f + new, 3) for old, f, new in zip(profile.passed, fading, passed_now, strict=True)),
        tuple(round(old * f + new, 3) for old, f, new in zip(profile.shown, fading, shown_now, strict=True)),
    )


def follow(
    cohorts: Sequence[Cohort], shown: Sequence[int], over: int, called: int, clocks_ms: tuple[int, int]
) -> tuple[Cohort, ...]:
    """The cohorts after another step: counted anew, without those whose turns are over, old ones put together.

    What was called between the first and the second of `clocks_ms` is one more.
    """
    before_ms, clock_ms = clocks_ms
    counted = [
        Cohort(cohort.called, cohort.clock_ms, shown_of) for cohort, shown_of in zip(cohorts, shown, strict=True)
    ]
    counted = [cohort for cohort in counted if cohort.called > over]
    last = max(over, counted[-1].called if counted else 0)
    if called > last:
        counted.append(Cohort(called, (before_ms + clock_ms) // 2, 0))
    kept: list[Cohort] = []
    below = over
    for cohort in counted:
        if kept and _together(kept[-1].clock_ms, cohort.clock_ms, clock_ms):
            before = kept.pop()
            older, newer = before.called - below, cohort.called - before.called
            mean_ms = (before.clock_ms * older + cohort.clock_ms * newer) // max(1, older + newer)
            kept.append(Cohort(cohort.called, mean_ms, before.shown + cohort.shown))
        else:
            if kept:
                below = kept[-1].called
            kept.append(cohort)
    return tuple(kept)


def _together(older_ms: int, newer_ms: int, clock_ms: int) -> bool:
    age_seconds = (clock_ms - newer_ms) / 1000
    grain = next(
        (grain for from_age, grain in reversed(GRAINS_SECONDS) if age_seconds >= from_age), GRAINS_SECONDS[0][1]
    )
    return older_ms // (1000 * grain) == newer_ms // (1000 * grain)


def _pass_through(passed: list[float], places: int, from_age: float, to_age: float) -> None:
    for index, (low, high) in enumerate(zip(_LOWS, EDGES_SECONDS, strict=True)):
        within = min(high, to_age) - max(low, from_age)
        if within > 0:
            passed[index] += places * within / (high - low)


def _bucket(age_seconds: float) -> int:
    return min(bisect_right(EDGES_SECONDS, age_seconds), len(EDGES_SECONDS) - 1)


_LOWS = (0.0, *EDGES_SECONDS[:-1])
PRIOR_SHARES = tuple(
    exp(-low / PRIOR_DELAY_SECONDS) - exp(-high / PRIOR_DELAY_SECONDS)
    for low, high in zip(_LOWS, EDGES_SECONDS, strict=True)
)
