"""A room's public document, the same for everyone: browsers work out their own place and wait from it (pure)."""

from datetime import UTC, datetime
from typing import Literal

from admission.book import View
from admission.outflow import Pace, pace_of, slowed
from admission.room_settings import phase_of
from admission.stock_signal import all_held, sold_out
from chassis.http import timestamp

Reason = Literal["away", "paused", "rejecting", "sold-out", "all-held", "full", "standing", "slowed"]

NEAR_SECONDS, FAR_SECONDS = 2.0, 30.0
POLL_JITTER = 0.3  # so that a crowd that came at one moment does not ask at one moment for ever
POLL_SHARE = 3  # asked again after a third of the least that the wait can be
PLACE_SECONDS = 600  # how seldom a place is asked for again when nothing has happened
PLACES_PER_SECOND = (
    3_000  # places asked for at once, after a draw or a new gap, spread over as many seconds as that takes
)
LATE_MS_MAX = 1_000  # a worker reads the segment that late


def status_document(view: View) -> dict[str, object]:
    """The document as of now. `serving` gives what is called at any moment until `valid_until`:
    min(base + rate_per_minute × minutes since `since`, called_max)."""
    settings, figures, now_ms = view.room.settings, view.figures, view.now_ms
    pace = measured(view)
    return {
        "room": view.room.name,
        "epoch": view.room.epoch,
        "generation": None if view.handle is None else view.handle.generation,
        "title": settings.title,
        "method": settings.method,
        "phase": phase_of(settings, now_ms, dormant=figures is not None and figures.dormant),
        "prequeue_at": _optional(settings.prequeue_at),
        "opens_at": _optional(settings.opens_at),
        "closes_at": _optional(settings.closes_at),
        "serving": None
        if figures is None
        else {
            "base": figures.base,
            "rate_per_minute": figures.call_rate,
            "since": moment(figures.since_ms),
            "valid_until": moment(figures.valid_until_ms),
            "called_max": figures.called_max,
        },
        "called": view.called,
        "issued": view.issued,
        "passed_over": view.layout.passed_over,
        "waiting": view.waiting,
        "active": None if figures is None else figures.active,
        "admitted": None if figures is None else figures.admitted,
        "admitted_away": view.admitted_away,
        "passed_through": None if figures is None else figures.passed,
        "rate_per_minute": settings.rate_per_minute,
        "called_per_minute": None if pace is None or pace.per_minute is None else round(pace.per_minute, 1),
        "seconds_per_place": None if pace is None else [round(pace.low, 4), round(pace.high, 4)],
        "reasons": reasons(view),
        "paused": settings.paused,
        "message": settings.message,
        "calling": _calling(view),
        "stock": _stock(view),
        "sold_out": sold_out(None if figures is None else figures.stock),
        "draw": _draw(view),
        "line": "reachable" if view.reachable else "away",
        "poll": {
            "near_seconds": NEAR_SECONDS,
            "far_seconds": FAR_SECONDS,
            "share": POLL_SHARE,
            "jitter": POLL_JITTER,
            "place_seconds": PLACE_SECONDS,
            "spread_seconds": round(min(FAR_SECONDS, view.issued / PLACES_PER_SECOND), 1),
        },
        "as_of": moment(now_ms),
    }


def measured(view: View) -> Pace | None:
    """What a place takes now; None when nobody was called for minutes although the room is open."""
    return pace_of(view.outflow, view.room.settings.rate_per_minute)


def reasons(view: View) -> list[Reason]:
    """Why waits grow or cannot be told, the weightiest first; none of them while the line moves as it did."""
    settings, figures, now_ms = view.room.settings, view.figures, view.now_ms
    stock = None if figures is None else figures.stock
    found: dict[Reason, bool] = {
        "away": not view.reachable,
        "paused": settings.paused,
        "rejecting": settings.method == "reject",
        "sold-out": sold_out(stock) is True,
        "all-held": all_held(stock),
        "full": figures is not None and settings.active_max is not None and figures.active >= settings.active_max,
        "standing": measured(view) is None,
        "slowed": slowed(view.outflow, now_ms),
    }
    return [reason for reason, holds in found.items() if holds]


def moment(unix_ms: float) -> str:
    """Unix milliseconds as RFC 3339."""
    return timestamp(datetime.fromtimestamp(unix_ms / 1000, UTC))


def _calling(view: View) -> dict[str, object] | None:
    """Why the line stands or moves, and the rate people are let in at now, which back-pressure may have lowered."""
    figures = view.figures
    if figures is None:
        return None
    renewed = view.now_ms <= figures.valid_until_ms + LATE_MS_MAX
    return {"state": figures.calling if renewed else "no-controller", "rate_per_minute": figures.pace_per_minute}


def _stock(view: View) -> dict[str, object] | str:
    signal = None if view.figures is None else view.figures.stock
    if signal is None or not signal.fresh:
        return "absent"
    return {"free": signal.free, "held": signal.held, "age_seconds": round(signal.age_seconds, 1)}


def _draw(view: View) -> dict[str, object] | None:
    if view.ordered_by != "draw" or view.draw is None:
        return None
    return view.draw.document()


def _optional(at: datetime | None) -> str | None:
    return None if at is None else timestamp(at)
