"""Where one buyer stands: state, place, an honest wait, and when to ask again (pure)."""

import random
from dataclasses import dataclass
from typing import Literal

from admission.book import View
from admission.line import Standing
from admission.room_settings import phase_of
from admission.status import FAR_SECONDS, NEAR_SECONDS, POLL_JITTER, POLL_SHARE, measured, moment, reasons

State = Literal["entered", "waiting", "called", "admitted", "missed", "ended"]

BOOK_AGE_SECONDS_MAX = 2.0
STANDING_REASONS = ("away", "paused", "rejecting", "sold-out", "all-held", "standing")


@dataclass(frozen=True, slots=True)
class Place:
    """A buyer's standing. `place` is None while the draw is to come; `wait_seconds` is None where nothing honest can be said."""

    state: State
    place: int | None
    ahead: int | None
    wait_seconds: tuple[int, int] | None
    turn_ends_ms: float | None = None
    pass_expires_at: int | None = None
    reachable: bool = True
    extensions_left: int | None = None
    grace_ends_ms: float | None = None

    def document(self, now_ms: float) -> dict[str, object]:
        """The answer of GET …/place at `now_ms`."""
        return {
            "state": self.state,
            "place": self.place,
            "ahead": self.ahead,
            "wait_seconds": self.wait_seconds,
            "poll_after_seconds": poll_after_seconds(self),
            "turn_ends_at": None if self.turn_ends_ms is None else moment(self.turn_ends_ms),
            "extensions_left": self.extensions_left,
            "grace_ends_at": None if self.grace_ends_ms is None else moment(self.grace_ends_ms),
            "pass_expires_at": None if self.pass_expires_at is None else moment(self.pass_expires_at * 1000),
            "line": "reachable" if self.reachable else "away",
            "server_time": moment(now_ms),
        }


def may_be_reached(view: View, place: int) -> bool:
    """Whether the line may have come as far since the book was read, so that Redis must be asked."""
    return place <= view.called + max(1.0, view.room.settings.rate_per_minute / 60 * BOOK_AGE_SECONDS_MAX)


def queued(view: View, place: int | None, called: int | None = None) -> Place:
    """The standing of a ticket that the line (which has come to `called`) has not reached."""
    if place is None:
        return Place("entered", None, None, _until_opening(view), reachable=view.reachable)
    if phase_of(view.room.settings, view.now_ms) == "closed":
        return Place("ended", place, None, None, reachable=view.reachable)
    ahead = max(0, place - (view.called if called is None else called) - 1)
    return Place("waiting", place, ahead, _wait(view, ahead), reachable=view.reachable)


def reached(view: View, place: int, standing: Standing) -> Place:
    """The standing of a ticket as Redis has it."""
    if standing.state == "waiting":
        return queued(view, place, standing.called)
    left_seconds, grace_seconds = standing.turn_left_seconds, standing.grace_left_seconds
    called = standing.state == "called"
    return Place(
        standing.state,
        place,
        0 if called else None,
        (0, 0) if called else None,
        turn_ends_ms=None if left_seconds is None else view.now_ms + left_seconds * 1000,
        pass_expires_at=standing.expires_at,
        extensions_left=max(0, view.room.settings.extensions_max - standing.extensions) if called else None,
        grace_ends_ms=None if grace_seconds is None else view.now_ms + grace_seconds * 1000,
    )


def poll_after_seconds(place: Place) -> float:
    """When to ask again: later the longer the wait, with jitter, so that a crowd stays cheap."""
    soonest = 0.0 if place.wait_seconds is None else place.wait_seconds[0] / POLL_SHARE
    if place.grace_ends_ms is not None:
        soonest = 5.0
    elif place.state in ("missed", "ended"):
        soonest = FAR_SECONDS
    elif place.state == "admitted" or not place.reachable:
        soonest = 5.0
    seconds = min(max(soonest, NEAR_SECONDS), FAR_SECONDS)
    return round(seconds * (1 + POLL_JITTER * random.random()), 1)  # noqa: S311 - spreads load, guards nothing


def wait_when_running(view: View, ahead: int) -> tuple[int, int] | None:
    """The wait by the line's real pace, counted from now, or from when the room opens or goes on."""
    pace = measured(view)
    return None if pace is None else pace.wait_seconds(ahead)


def _wait(view: View, ahead: int) -> tuple[int, int] | None:
    """What can be promised from now on: nothing while the room stands still."""
    running = wait_when_running(view, ahead)
    if running is None or any(reason in STANDING_REASONS for reason in reasons(view)):
        return None
    until_opening, _ = _until_opening(view) or (0, 0)
    return until_opening + running[0], until_opening + running[1]


def _until_opening(view: View) -> tuple[int, int] | None:
    opens_at = view.room.settings.opens_at
    if opens_at is None:
        return None
    seconds = max(0, round(opens_at.timestamp() - view.now_ms / 1000))
    return seconds, seconds
