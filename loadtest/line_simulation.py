"""A sale's line under a virtual clock: the controller's own rules, and buyers who come late or not at all.

The same seed gives the same sale. What is measured is what the line promises: admissions against the rate, I7 and the cap.
"""

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from admission.held_claims import HELD_MS_MAX, DueTokens
from admission.pacing import Pacing
from admission.room_settings import RoomSettings
from loadtest.line_twin import LineTwin

STEP_MS = 500
POLL_SECONDS = (0.0, 2.6)  # how late a waiting page hears of its call
WINDOW_MS = 60_000
RATE_ERROR_MAX = 0.03


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who stands in line. `no_shows` of all never come, or those of `heads_gone` among the first `heads`; whoever comes
    takes `reaction_seconds` on average from hearing of the call, and shops for `shopping_seconds` on average."""

    waiting: int = 100_000
    no_shows: float = 0.3
    heads: int = 0
    heads_gone: float = 0.0
    reaction_seconds: float = 2.0
    shopping_seconds: float = 180.0

    def comes(self, place: int, chance: random.Random) -> bool:
        """Whether the buyer at `place` is still there."""
        return chance.random() >= (self.heads_gone if place <= self.heads else self.no_shows)


@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of a sale: who was admitted when (milliseconds from its start), and the figures that were promised."""

    settings: RoomSettings
    minutes: int
    admissions_ms: Sequence[int]
    called: int
    waiting: int
    active_max: int
    door_max: int

    @property
    def by_minute(self) -> list[int]:
        """Admissions in each minute."""
        counts = [0] * self.minutes
        for moment_ms in self.admissions_ms:
            counts[min(moment_ms // WINDOW_MS, self.minutes - 1)] += 1
        return counts

    @property
    def rate_error(self) -> float:
        """By how much of the rate admissions fell short of it, over the whole sale."""
        due = self.settings.rate_per_minute * self.minutes
        return 1 - len(self.admissions_ms) / due

    @property
    def ran_dry(self) -> bool:
        """Whether everybody in line had been called before the sale was over."""
        return self.called >= self.waiting

    @property
    def window_bound(self) -> float:
        """What I7 allows in any 60 seconds: the rate, and one second of it or one."""
        return self.settings.rate_per_minute + max(1.0, self.settings.rate_per_minute / 60)

    @property
    def window_max(self) -> int:
        """The most admissions in any 60 seconds."""
        return busiest_window(self.admissions_ms)

    @property
    def within_bounds(self) -> bool:
        """Whether I7 and the cap held."""
        capped = self.settings.active_max is None or self.active_max <= self.settings.active_max
        return capped and self.window_max <= self.window_bound


@dataclass(slots=True)
class _Sale:
    line: LineTwin
    crowd: Crowd
    chance: random.Random
    events: list[tuple[int, int, str]] = field(default_factory=list)  # (moment, place, what happens)
    admissions_ms: list[int] = field(default_factory=list)
    due: DueTokens = field(default_factory=DueTokens)
    held_until_ms: dict[int, int] = field(default_factory=dict)
    heard: int = 0
    active_max: int = 0
    door_max: int = 0

    def hear(self, now_ms: int) -> None:
        """Whoever was called since the last time hears of it, each in their own time."""
        called = self.line.called(now_ms)
        for place in range(self.heard + 1, called + 1):
            if self.crowd.comes(place, self.chance):
                seconds = self.chance.uniform(*POLL_SECONDS) + self.chance.expovariate(1 / self.crowd.reaction_seconds)
                heapq.heappush(self.events, (now_ms + ceil(seconds * 1000), place, "claims"))
        self.heard = called

    def until(self, end_ms: int) -> None:
        """All that happens before `end_ms`."""
        while self.events and self.events[0][0] < end_ms:
            now_ms, place, what = heapq.heappop(self.events)
            if what == "leaves":
                self.line.leave(place)
                continue
            decision = self.line.claim(place, now_ms)
            if decision.reason == "rate" and self.hold(place, now_ms, decision.wait_ms):
                continue
            self.held_until_ms.pop(place, None)
            if decision.outcome == "granted":
                self.admissions_ms.append(now_ms - self.line.started_ms)
                seconds = self.chance.expovariate(1 / self.crowd.shopping_seconds)
                heapq.heappush(self.events, (now_ms + ceil(seconds * 1000), place, "leaves"))
                self.active_max = max(self.active_max, len(self.line.slots))
            elif decision.outcome in ("wait", "early"):
                heapq.heappush(self.events, (now_ms + ceil(self.chance.uniform(1.0, 2.6) * 1000), place, "claims"))

    def hold(self, place: int, now_ms: int, wait_ms: int) -> bool:
        """Whether the gateway keeps a claim that the rate refuses, as HeldClaims does, to ask again when its token is due."""
        find_due = self.due.due_again if place in self.held_until_ms else self.due.next_due
        until_ms = self.held_until_ms.setdefault(place, now_ms + HELD_MS_MAX)
        due_ms = find_due(now_ms, wait_ms, 60_000 / self.line.pace)
        if due_ms > until_ms:
            return False
        self.due.last = max(self.due.last, due_ms)
        heapq.heappush(self.events, (ceil(due_ms), place, "claims"))
        return True


def simulate(settings: RoomSettings, crowd: Crowd, *, minutes: int, seed: int) -> Simulated:
    """Run a sale of `minutes` whose line holds `crowd`, under a virtual clock."""
    start_ms = 1_000_000 * 1000
    sale = _Sale(LineTwin(settings, start_ms), crowd, random.Random(seed))  # noqa: S311 - a simulation, no secret
    pacing = Pacing()
    for now_ms in range(start_ms, start_ms + minutes * WINDOW_MS, STEP_MS):
        sale.until(now_ms)
        _, pacing = sale.line.control(now_ms, crowd.waiting, pacing, None)
        sale.door_max = max(sale.door_max, len(sale.line.extended))
        sale.hear(now_ms + STEP_MS // 2)
    sale.until(start_ms + minutes * WINDOW_MS)
    return Simulated(
        settings, minutes, sale.admissions_ms, sale.line.called_max, crowd.waiting, sale.active_max, sale.door_max
    )


def busiest_window(moments_ms: Sequence[int]) -> int:
    """The most of these moments, in order, within any 60 seconds."""
    most = first = 0
    for last, moment_ms in enumerate(moments_ms):
        while moments_ms[first] <= moment_ms - WINDOW_MS:
            first += 1
        most = max(most, last - first + 1)
    return most
