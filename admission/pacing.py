"""How fast the line is called (pure), so that arrivals, not calls, meet the rate.

The line keeps as many expected arrivals under way as the rate uses up in the time they take, and a small reserve at the
door, whom the claim asks to wait a moment. It slows down while the shop's stock is overloaded. The operator's bounds
always win, and the claim's own bucket and cap are what is exact: an estimate that errs makes somebody wait, no more.
"""

from dataclasses import dataclass
from math import floor, sqrt

import msgspec

from admission.arrivals import Cohort, Expectation, Profile, follow, learn
from admission.room_settings import RoomSettings
from admission.stock_signal import StockSignal

SETTLE_SECONDS = 4.0  # how soon a surplus or a lack of arrivals is made good
RESERVE_SECONDS = 0.5  # of the rate, at the door: whoever is asked to wait is back only a moment later
RESERVE_SPREADS = 3.0  # and as many standard deviations of what no-shows and reaction times make uncertain
EARLY_PLACES = 0.1  # what a whole place may lack and be called all the same
SURGE_MAX = 3.0  # arrivals aimed at, at most, as a multiple of the rate
HALVED_MS_MIN = 3_000  # back-pressure halves the rate at most this often
RECOVERY_PER_SECOND = 0.03  # of the operator's rate, added back
DOOR_MS_MIN = 5_000  # whoever was asked to wait is counted at the door so long: time to have come back
QUEUE_SHARE_MAX = 0.8  # a lane that is filled further is overloaded


class Pacing(msgspec.Struct, frozen=True):
    """What a step must know of the steps before it. `throttle` is the share of the rate that back-pressure leaves."""

    profile: Profile = Profile()
    cohorts: tuple[Cohort, ...] = ()
    throttle: float = 1.0
    halved_at_ms: int = 0

    def encode(self) -> str:
        """The pacing as JSON."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> "Pacing":
        """The pacing in JSON that `encode` made."""
        return msgspec.json.decode(text, type=cls)

    def lasting(self) -> "Pacing":
        """What counts for a leader who starts anew: all but the cohorts, which are counted in Redis."""
        return msgspec.structs.replace(self, cohorts=())


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Who is expected: `door` are here and were asked to wait, `to_come` of the called will still show up.

    `tokens` are how many could be let in at once.
    """

    expectation: Expectation
    door: int
    to_come: float
    tokens: float

    @property
    def expected(self) -> float:
        """How many more the places called so far will bring."""
        return self.door + self.to_come


@dataclass(frozen=True, slots=True)
class Pull:
    """How the arrivals that are lacking are called: `call_rate` places a minute, and `places` ahead at most."""

    call_rate: float
    places: int


def pull(pace_per_minute: float, arrivals: Arrivals, ahead_seconds: float) -> Pull:
    """What to call for the next `ahead_seconds`, so that arrivals meet `pace_per_minute`.

    Lacking are those who could be let in by the time that somebody called now takes to come, less those who are expected.
    """
    pace = pace_per_minute / 60
    share, delay_seconds = arrivals.expectation.show_share, arrivals.expectation.delay_seconds
    reserve = RESERVE_SECONDS * pace + RESERVE_SPREADS * sqrt(pace * (SETTLE_SECONDS * (1 - share) + delay_seconds / 2))
    lacking = arrivals.tokens + reserve + pace * delay_seconds - arrivals.expected
    wanted = min(max(0.0, pace + lacking / SETTLE_SECONDS), SURGE_MAX * pace + arrivals.tokens)
    return Pull(wanted / share * 60, floor(max(0.0, lacking + pace * ahead_seconds) / share + EARLY_PLACES))


def advance(
    pacing: Pacing, shown: tuple[int, ...], over: int, called: int, clocks_ms: tuple[int, int], rate: float
) -> Pacing:
    """The pacing after another step, from the first to the second of `clocks_ms` (turn clock), which `shown` was counted in.

    `rate` is how many places a minute were called.
    """
    profile = learn(pacing.profile, pacing.cohorts, shown, over, clocks_ms, rate)
    cohorts = follow(pacing.cohorts, shown, over, called, clocks_ms)
    return msgspec.structs.replace(pacing, profile=profile, cohorts=cohorts)


def throttle(pacing: Pacing, settings: RoomSettings, stock: StockSignal | None, now_ms: int, elapsed_ms: int) -> Pacing:
    """The pacing with back-pressure as of `now_ms`: additive increase, multiplicative decrease."""
    if settings.stock_latency_ms_max is None:
        return msgspec.structs.replace(pacing, throttle=1.0)
    if stock is not None and stock.fresh and _overloaded(stock, settings.stock_latency_ms_max):
        if now_ms - pacing.halved_at_ms < HALVED_MS_MIN:
            return pacing
        halved = max(pacing.throttle / 2, settings.rate_min_per_minute / settings.rate_per_minute)
        return msgspec.structs.replace(pacing, throttle=halved, halved_at_ms=now_ms)
    raised = min(1.0, pacing.throttle + RECOVERY_PER_SECOND * elapsed_ms / 1000)
    return msgspec.structs.replace(pacing, throttle=raised)


def pace_per_minute(pacing: Pacing, settings: RoomSettings) -> float:
    """Admissions a minute aimed at: what back-pressure leaves of the operator's rate, within the operator's bounds."""
    return min(settings.rate_per_minute, max(settings.rate_min_per_minute, settings.rate_per_minute * pacing.throttle))


def _overloaded(stock: StockSignal, latency_ms_max: int) -> bool:
    too_slow = stock.latency_ms is not None and stock.latency_ms > latency_ms_max
    return too_slow or stock.queue_share > QUEUE_SHARE_MAX
