"""How the stock's outcomes are said over HTTP: documents with the server's time, refusals as problems."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType

from starlette.responses import Response

from chassis.answer import JSON_HEADERS, Answer, as_response
from chassis.http import invalid_fields, timestamp
from chassis.problems import Problem
from counters.rules import TOTAL_MAX, Done, Refusal, Refused

_REPLAYED_HEADERS = (*JSON_HEADERS, (b"idempotent-replayed", b"true"))

# Refusal -> (code of the problem, what happened and what to do).
_SAYINGS: Mapping[Refusal, tuple[str, str]] = MappingProxyType(
    {
        "key-reused": ("key-reused", "This Idempotency-Key belongs to another request: use a new one."),
        "not-on-sale": ("not-on-sale", "This is not on sale now."),
        "other-room": ("pass-refused", "This needs a live pass of the room that it is sold in."),
        "sold-out": ("sold-out", "Nothing is available now."),
        "insufficient-stock": ("insufficient-stock", "Fewer are available than you ask for."),
        "seat-taken": ("seat-taken", "Choose other seats: these are taken."),
        "no-such-seat": ("invalid", "There are no such seats."),
        "buyer-limit": ("buyer-limit", "This buyer may not have more."),
        "buyer-missing": ("invalid", "This is limited per buyer: say who buys."),
        "not-found": ("not-found", "There is no such hold or sale."),
        "not-in-hold": ("invalid", "What is named is not a part of this hold."),
        "stale-fence": ("stale-fence", "The fence is not the hold's: what it stood for is over."),
        "hold-expired": (
            "hold-expired",
            "The hold ran past its deadline. Reserve anew; where it was paid for, confirm with reacquire.",
        ),
        "hold-released": ("hold-released", "The hold was released; its units are free again. Reserve anew."),
        "hold-paying": ("hold-paying", "The payment is under way; only the shop can end it now."),
        "hold-sold": ("hold-sold", "The hold is sold."),
        "hold-not-paying": ("hold-not-paying", "The hold does not wait for a payment (any more)."),
        "extension-limit": ("extension-limit", "The hold is at the furthest deadline that it may have."),
        "fixed": ("exists", "The SKU exists; this about it cannot be changed."),
        "seats-missing": ("invalid", "A new seated SKU comes with its seats."),
        "below-commitments": ("below-commitments", "That many are not free: some are held or sold already."),
        "seated": ("invalid", "A seated SKU has as much stock as it has seats."),
        "too-many": ("invalid", "That would be more units than a SKU may have."),
    }
)


def said(outcome: Done | Refused, status: int = 200, *, pass_shown: bool = True) -> Answer:
    """What the caller hears. Raises the Problem that says a refusal."""
    if isinstance(outcome, Refused):
        raise refusal(outcome, pass_shown=pass_shown)
    return done_answer(outcome, status)


def done_answer(done: Done, status: int = 200) -> Answer:
    """The verb's document, byte for byte as first answered, with the server's time now."""
    now = _stamp(time.time_ns() // 1_000_000)
    body = f'{done.document[:-1].rstrip()}, "server_time": "{now}"}}'.encode()
    return Answer(status, body, _REPLAYED_HEADERS if done.replayed else JSON_HEADERS)


def done_response(done: Done, status: int = 200) -> Response:
    """The same answer for a Starlette handler to return."""
    return as_response(done_answer(done, status))


def refusal(refused: Refused, *, pass_shown: bool = True) -> Problem:
    """The problem that says `refused`."""
    code, detail = _SAYINGS[refused.code]
    if refused.code == "other-room" and not pass_shown:
        code = "pass-required"
    if refused.code == "no-such-seat":
        return invalid_fields([("/lines", f"no such seat: {seat}") for seat in _listed(refused, "seats")])
    if refused.code == "not-in-hold":
        return invalid_fields(
            [(f"/lines/{place}", "is not a part of this hold") for place in _listed(refused, "lines")]
        )
    if refused.code == "seats-missing":
        return invalid_fields([("/seats", "is missing: a new seated SKU comes with its seats")])
    if refused.code == "seated":
        return invalid_fields([("", "a seated SKU has as much stock as it has seats: block seats instead")])
    if refused.code == "too-many":
        return invalid_fields([("/quantity", f"the total would pass {TOTAL_MAX}")])
    if refused.code == "buyer-missing":
        return invalid_fields([("/buyer", "is missing: this is limited per buyer")])
    if refused.facts.get("next_release_at") is not None:
        detail += " What is held may come back from next_release_at on."
    return Problem(code, detail, headers=None, **refused.facts)


def _listed(refused: Refused, fact: str) -> list[object]:
    listed = refused.facts[fact]
    assert isinstance(listed, list)
    return listed


@lru_cache(maxsize=1)
def _stamp(milliseconds: int) -> str:
    """The moment in RFC 3339: written once for all who are answered in the same millisecond."""
    return timestamp(datetime.fromtimestamp(milliseconds / 1000, UTC))
