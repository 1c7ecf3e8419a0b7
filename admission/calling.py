"""The rules by which places are called (pure): how far the line may come until the next step, and when turns run out.

The line's segment is a bounded closed form, min(base + rate × (min(now, valid_until) − since), called_max): anybody can
work it out between two steps, and without a controller it stands still after three seconds.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from math import floor

from admission.room_settings import RoomSettings, phase_of

SEGMENT_MS_MAX = 3_000
CARRY_PLACES_MAX = 0.999  # an idle line keeps less than one place, so that whoever comes next need not wait a minute


@dataclass(frozen=True, slots=True)
class Observed:
    """A room's line before a step. `reached` is what the rate alone would have called, `called` what was."""

    now_ms: int
    reached: float
    called: int
    active: int
    open_turns: int
    entries: int
    numbers: int
    over: int
    clock_ms: int
    stepped_ms: int
    entries_closed: bool
    dormant: bool = False
    arrivals_left: float = 0.0


@dataclass(frozen=True, slots=True)
class Segment:
    """The line from `since_ms` until `valid_until_ms`; `clock_ms` is the room's turn clock from now on."""

    base: float
    since_ms: int
    valid_until_ms: int
    call_rate: float
    called_max: int
    clock_ms: int


@dataclass(frozen=True, slots=True)
class Call:
    """At `clock_ms` of the turn clock all places up to `called` had been called."""

    called: int
    clock_ms: int


def plan_segment(observed: Observed, settings: RoomSettings, places: int | None) -> Segment:
    """The next segment. `places` is how many places there are, None while nobody may be called.

    Called and not yet claimed together with active never exceed active_max. The turn clock stands still while the room
    refuses claims: paused, full, or without a controller for longer than a segment.
    """
    now_ms = observed.now_ms
    base = min(observed.reached, observed.called + CARRY_PLACES_MAX)
    full = settings.active_max is not None and observed.active >= settings.active_max
    elapsed_ms = min(max(0, now_ms - observed.stepped_ms), SEGMENT_MS_MAX)
    clock_ms = observed.clock_ms + (0 if settings.paused or settings.method == "reject" or full else elapsed_ms)
    if places is None:
        base = observed.called + CARRY_PLACES_MAX  # a line that is not open yet is idle
    if places is not None and (settings.method == "passthrough" or stands_by(settings, observed, places)):
        return Segment(places, now_ms, now_ms + SEGMENT_MS_MAX, 0.0, places, clock_ms)  # everybody is called at once
    if places is None or settings.paused or settings.method == "reject":
        return Segment(base, now_ms, now_ms, 0.0, observed.called, clock_ms)
    reachable = floor(base + settings.rate_per_minute * SEGMENT_MS_MAX / 60_000)
    called_max = min(places, reachable)
    if settings.active_max is not None:
        free = max(0, settings.active_max - observed.active - observed.open_turns)
        called_max = min(called_max, observed.called + free)
    return Segment(
        base, now_ms, now_ms + SEGMENT_MS_MAX, settings.rate_per_minute, max(called_max, observed.called), clock_ms
    )


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
