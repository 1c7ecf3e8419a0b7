"""What a room's public document says about one place: how long until it is called. Pure."""

from datetime import datetime
from typing import Any


def seconds_to_turn(document: dict[str, Any], age_seconds: float, place: int) -> float | None:
    """Seconds until `place` is called, 0 once it is; None while the document promises nothing.

    The document gives min(base + rate × (min(now, valid_until) − since), called_max) by the server's own clock, which
    is `as_of` plus the document's age: the reader's clock does not matter.
    """
    serving = document.get("serving")
    if serving is None:
        return None
    now = _seconds(document["as_of"]) + age_seconds
    per_second = serving["rate_per_minute"] / 60
    elapsed = max(0.0, min(now, _seconds(serving["valid_until"])) - _seconds(serving["since"]))
    called = min(serving["base"] + per_second * elapsed, serving["called_max"])
    if place <= called:
        return 0.0
    if document["phase"] != "open" or document["rate_per_minute"] <= 0:
        return None
    return float((place - called) * 60 / document["rate_per_minute"])


def seconds_to_opening(document: dict[str, Any], age_seconds: float) -> float:
    """Seconds until the room opens; 0 when it has, or has no time for it."""
    if document["opens_at"] is None:
        return 0.0
    return max(0.0, _seconds(document["opens_at"]) - _seconds(document["as_of"]) - age_seconds)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
