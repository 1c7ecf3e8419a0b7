"""The rules by which places are called (pure): how far the line may come until the next step, and when turns run out.

The line's segment is a bounded closed form, min(base + rate × (min(now, valid_until) − since), called_max): anybody can
work it out between two steps, and without a controller it stands still after three seconds.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import floor
from typing import Literal

from admission.arrivals import Expectation
from admission.pacing import Arrivals, Pacing, advance, pace_per_minute, pull, throttle
from admission.room_settings import RoomSettings, phase_of
from admission.stock_signal import StockSignal

# Why the line stands or moves; no-controller is seen by whoever reads a segment that nobody has renewed.
Calling = Literal[
    "running", "paused", "rejecting", "full", "sold-out", "all-held", "taken", "not-open", "passthrough", "standby"
]
SEGMENT_MS_MAX = 3_000
UNBOUNDED = 1e12  # more places than any room has
CARRY_PLACES_MAX = 0.999  # an idle line keeps less than one place, so that whoever comes next need not wait a minute


@dataclass(frozen=True, slots=True)
class Observed:
    """A room's line before a step. `reached` is what the rate alone would have called, `called` what was.

    `shown` says for each cohort of the pacing how many came; `door` are those the room itself has just asked to wait.
    """

    now_ms: int
    reached: float
    called: int
    active: int
    entries: int
    numbers: int
    over: int
    clock_ms: int
    stepped_ms: int
    entries_closed: bool
    dormant: bool = False
    arrivals_left: float = 0.0
    doubtful: int = 0
    tokens: float = 0.0
    door: int = 0
    shown: tuple[int, ...] = ()
    stock: StockSignal | None = None
    pacing: Pacing | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """The line from `since_ms` until `valid_until_ms`; `clock_ms` is the room's turn clock from now on.

    `pace_per_minute` is what the claim's bucket admits: the operator's rate, or less under back-pressure.
    """

    base: float
    since_ms: int
    valid_until_ms: int
    call_rate: float
    called_max: int
    clock_ms: int
    pace_per_minute: float
    calling: Calling


@dataclass(frozen=True, slots=True)
class Call:
    """At `clock_ms` of the turn clock all places up to `called` had been called."""

    called: int
    clock_ms: int


def plan_segment(
    observed: Observed, settings: RoomSettings, places: int | None, pacing: Pacing
) -> tuple[Segment, Pacing]:
    """The next segment, and the pacing for the step after it. `places` is how many there are, None while nobody may be called.

    The turn clock stands still while the room refuses claims: paused, full, or without a controller for longer than a segment.
    """
    now_ms = observed.now_ms
    full = settings.active_max is not None and observed.active + observed.doubtful >= settings.active_max
    elapsed_ms = min(max(0, now_ms - observed.stepped_ms), SEGMENT_MS_MAX)
    clock_ms = observed.clock_ms + (0 if settings.paused or settings.method == "reject" or full else elapsed_ms)
    pacing = advance(
        throttle(pacing, settings, observed.stock, now_ms, elapsed_ms),
        observed.shown,
        observed.over,
        observed.called,
        (observed.clock_ms, clock_ms),
        settings.rate_per_minute,
    )
    pace = pace_per_minute(pacing, settings)
    base = min(observed.reached, observed.called + CARRY_PLACES_MAX)
    if places is None:
        base = observed.called + CARRY_PLACES_MAX  # a line that is not open yet is idle
    rate, called_max, calling = 0.0, observed.called, _stopped(observed, settings, places)
    if places is not None and calling in ("passthrough", "standby"):
        base, called_max = places, places  # everybody is called at once
    elif places is not None and calling == "running":
        expectation = Expectation(pacing.profile.shares(), settings.turn_seconds)
        to_come = expectation.to_come(pacing.cohorts, observed.over, clock_ms)
        arrivals = Arrivals(expectation, observed.door, to_come, observed.tokens)
        pulled = pull(pace, arrivals, SEGMENT_MS_MAX / 1000)
        rate = pulled.call_rate
        room, calling = _room_left(observed, settings, arrivals)
        reachable = floor(base + rate * SEGMENT_MS_MAX / 60_000)
        called_max = min(places, reachable, observed.called + min(room, pulled.places))
    segment = Segment(
        base, now_ms, now_ms + SEGMENT_MS_MAX, rate, max(called_max, observed.called), clock_ms, pace, calling
    )
    return segment, pacing


def may_call(settings: RoomSettings, now_ms: int) -> bool:
    """Whether the sale is running at `now_ms` (Unix milliseconds); a pause is for plan_segment."""
    return phase_of(settings, now_ms) in ("open", "paused")


def stands_by(settings: RoomSettings, observed: Observed, places: int | None) -> bool:
    """Whether the room is dormant until the next step: it falls asleep when nobody waits and joins are half what wakes it."""
    threshold = settings.standby_above_per_minute
    if threshold is None or places is None:
        return False
    return observed.dormant or (observed.called >= places and observed.arrivals_left >= threshold / 2)


def doubtful_places(calls: Sequence[Call], claimed: Set[int], over: int, called: int) -> Mapping[int, int]:
    """After a loss of Redis: places whose turn is open and whose claim may have been lost, with when each was called.

    `calls` are in order; a place without one counts as called last.
    """
    reached = [call.called for call in calls]
    last_ms = calls[-1].clock_ms if calls else 0
    doubtful = {}
    for place in range(over + 1, called + 1):
        if place not in claimed:
            index = bisect_left(reached, place)
            doubtful[place] = calls[index].clock_ms if index < len(calls) else last_ms
    return doubtful


def _stopped(observed: Observed, settings: RoomSettings, places: int | None) -> Calling:
    """What settles how the line is called, whoever is expected; 'running' where nothing does."""
    if places is None:
        return "not-open"
    if settings.method == "reject":
        return "rejecting"
    if settings.paused:
        return "paused"
    if settings.method == "passthrough":
        return "passthrough"
    if stands_by(settings, observed, places):
        return "standby"
    stock = observed.stock
    if stock is not None and stock.fresh and stock.free <= 0:
        return "all-held" if stock.held > 0 else "sold-out"
    return "running"


def _room_left(observed: Observed, settings: RoomSettings, arrivals: Arrivals) -> tuple[int, Calling]:
    """How many more places may be called at once under the cap and for the stock, and which of them stops the line.

    Stock is surely taken when everybody inside without a hold, and everybody expected, takes one unit each. Who holds more
    than one counts as several holders here: that errs towards calling, so no unit stays unsold because the line stood.
    """
    expected, share = arrivals.expected, arrivals.expectation.show_share
    calling: Calling = "running"
    left = UNBOUNDED
    if settings.active_max is not None:
        left = (settings.active_max - observed.active - observed.doubtful - expected) / share
        calling = "full" if left < 1 else calling
    stock = observed.stock
    if stock is not None and stock.fresh:
        without_hold = max(0, observed.active - stock.held)
        for_stock = (stock.free - without_hold - expected) / share
        if for_stock < min(left, 1):
            calling = "taken"
        left = min(left, for_stock)
    return max(0, floor(left)), calling
