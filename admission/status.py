"""A room's public document, the same for everyone: browsers work out their own wait from it (pure)."""

from datetime import UTC, datetime

from admission.book import View
from admission.room_settings import phase_of
from admission.stock_signal import sold_out
from chassis.http import timestamp


def status_document(view: View) -> dict[str, object]:
    """The document as of now. `serving` gives what is called at any moment until `valid_until`:
    min(base + rate_per_minute × minutes since `since`, called_max)."""
    settings, figures, now_ms = view.room.settings, view.figures, view.now_ms
    return {
        "room": view.room.name,
        "epoch": view.room.epoch,
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
        "active": None if figures is None else figures.active,
        "admitted": None if figures is None else figures.admitted,
        "passed_through": None if figures is None else figures.passed,
        "rate_per_minute": settings.rate_per_minute,
        "paused": settings.paused,
        "message": settings.message,
        "sold_out": sold_out(None if figures is None else figures.stock),
        "draw": _draw(view),
        "line": "reachable" if view.reachable else "away",
        "as_of": moment(now_ms),
    }


def moment(unix_ms: float) -> str:
    """Unix milliseconds as RFC 3339."""
    return timestamp(datetime.fromtimestamp(unix_ms / 1000, UTC))


def _draw(view: View) -> dict[str, object] | None:
    if view.ordered_by != "draw" or view.draw is None:
        return None
    return view.draw.document()


def _optional(at: datetime | None) -> str | None:
    return None if at is None else timestamp(at)
