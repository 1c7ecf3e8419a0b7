"""The line as Redis keeps it, under a virtual clock (pure): the twin of admission/lua/, for simulations.

It decides as claim.lua, observe.lua and step.lua do, for a room that is open; a test holds the two against each other.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil, floor
from typing import Literal

from admission.calling import Observed, Segment, plan_segment
from admission.pacing import DOOR_MS_MIN, Pacing
from admission.room_settings import RoomSettings
from admission.stock_signal import StockSignal

Reason = Literal["full", "rate"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a claim is told: granted, again, early, missed, or wait with a reason and for how long."""

    outcome: Literal["granted", "again", "early", "missed", "wait"]
    reason: Reason | None = None
    wait_ms: int = 0


@dataclass(slots=True)
class LineTwin:
    """One room's line. Places stand for tickets; moments are Unix milliseconds."""

    settings: RoomSettings
    started_ms: int
    base: float = 0.999
    since_ms: int = 0
    valid_until_ms: int = 0
    call_rate: float = 0.0
    called_max: int = 0
    clock_ms: int = 0
    over: int = 0
    bucket: float = 0.0
    bucket_at_ms: int = 0
    pace: float = 0.0
    admitted: int = 0
    calls: list[tuple[int, int]] = field(default_factory=list)  # (turn clock, called)
    slots: dict[int, int] = field(default_factory=dict)  # place -> Unix second its pass expires
    expiries: list[tuple[int, int]] = field(default_factory=list)  # a heap of the slots' ends
    claimed: set[int] = field(default_factory=set)
    extended: dict[int, int] = field(default_factory=dict)  # place -> turn clock its turn ends
    shown: list[int] = field(default_factory=list)  # places of open turns that came, in order

    def __post_init__(self) -> None:
        self.pace = self.settings.rate_per_minute
        self.bucket = max(1.0, self.pace / 60)
        self.since_ms = self.bucket_at_ms = self.started_ms

    def called(self, now_ms: int) -> int:
        """The last place called at `now_ms`."""
        return floor(min(self._reached(now_ms), self.called_max))

    def claim(self, place: int, now_ms: int) -> Decision:
        """What claim.lua answers to the ticket of `place`."""
        if place in self.claimed:
            return Decision("again")
        if place > self.called(now_ms):
            return Decision("early")
        if place <= self.over and self.extended.get(place, -1) <= self.clock_ms:
            return Decision("missed")
        self._expire(now_ms)
        left = self._tokens(now_ms)
        if self.settings.active_max is not None and len(self.slots) >= self.settings.active_max:
            return self._ask_to_wait(place, "full", 2_000)
        if left < 1:
            return self._ask_to_wait(place, "rate", (1 - left) * 60_000 / self.pace)
        self.bucket, self.bucket_at_ms = left - 1, now_ms
        self.admitted += 1
        self.slots[place] = now_ms // 1000 + self.settings.pass_seconds
        heappush(self.expiries, (self.slots[place], place))
        self.claimed.add(place)
        self.extended.pop(place, None)
        self._note_shown(place)
        return Decision("granted")

    def leave(self, place: int) -> None:
        """Free the slot at once."""
        self.slots.pop(place, None)

    def observe(self, now_ms: int, places: int, pacing: Pacing, stock: StockSignal | None) -> Observed:
        """What observe.lua answers."""
        self._expire(now_ms)
        self.extended = {place: ends_ms for place, ends_ms in self.extended.items() if ends_ms > self.clock_ms}
        del self.shown[: bisect_left(self.shown, self.over + 1)]
        turn_ms = self.settings.turn_seconds * 1000
        at_door = self.clock_ms + turn_ms - max(DOOR_MS_MIN, 120_000 / self.pace)
        counts = []
        below = self.over
        for cohort in pacing.cohorts:
            counts.append(
                bisect_left(self.shown, cohort.called + 1) - bisect_left(self.shown, max(below, self.over) + 1)
            )
            below = cohort.called
        return Observed(
            now_ms=now_ms,
            reached=self._reached(now_ms),
            called=self.called(now_ms),
            active=len(self.slots),
            entries=0,
            numbers=places,
            over=self.over,
            clock_ms=self.clock_ms,
            stepped_ms=self.since_ms,
            entries_closed=True,
            tokens=self._tokens(now_ms),
            door=sum(at_door < ends_ms <= self.clock_ms + turn_ms for ends_ms in self.extended.values()),
            shown=tuple(max(0, count) for count in counts),
            stock=stock,
        )

    def step(self, segment: Segment, now_ms: int) -> None:
        """What step.lua does."""
        self.bucket, self.bucket_at_ms = self._tokens(now_ms), now_ms
        called = self.called(now_ms)
        if called > max(self.over, self.calls[-1][1] if self.calls else 0):
            self.calls.append((segment.clock_ms, called))
        while self.calls and self.calls[0][0] <= segment.clock_ms - self.settings.turn_seconds * 1000:
            self.over = max(self.over, self.calls.pop(0)[1])
        self.base, self.since_ms, self.valid_until_ms = segment.base, segment.since_ms, segment.valid_until_ms
        self.call_rate, self.called_max = segment.call_rate, segment.called_max
        self.clock_ms, self.pace = segment.clock_ms, segment.pace_per_minute

    def control(self, now_ms: int, places: int, pacing: Pacing, stock: StockSignal | None) -> tuple[Segment, Pacing]:
        """One step of the leader: the segment it set and the pacing for the next."""
        segment, pacing = plan_segment(self.observe(now_ms, places, pacing, stock), self.settings, places, pacing)
        self.step(segment, now_ms)
        return segment, pacing

    def _reached(self, now_ms: int) -> float:
        elapsed_ms = max(0, min(now_ms, self.valid_until_ms) - self.since_ms)
        return self.base + self.call_rate * elapsed_ms / 60_000

    def _tokens(self, now_ms: int) -> float:
        elapsed_ms = max(0, now_ms - self.bucket_at_ms)
        return min(max(1.0, self.pace / 60), self.bucket + self.pace * elapsed_ms / 60_000)

    def _expire(self, now_ms: int) -> None:
        while self.expiries and self.expiries[0][0] <= now_ms // 1000:
            self.slots.pop(heappop(self.expiries)[1], None)

    def _ask_to_wait(self, place: int, reason: Reason, wait_ms: float) -> Decision:
        ends_ms = self.clock_ms + self.settings.turn_seconds * 1000
        self.extended[place] = max(self.extended.get(place, 0), ends_ms)
        self._note_shown(place)
        return Decision("wait", reason, ceil(wait_ms))

    def _note_shown(self, place: int) -> None:
        at = bisect_left(self.shown, place)
        if place > self.over and (at == len(self.shown) or self.shown[at] != place):
            insort(self.shown, place)
