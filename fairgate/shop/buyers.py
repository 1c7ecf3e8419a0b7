"""Who is at the counter: the gate in front has verified the pass and says whose it is in two headers.

The shop listens behind that gate only; the stock verifies the forwarded pass again before it gives anything.
"""

import re
from dataclasses import dataclass

from starlette.requests import Request

from chassis.problems import Problem

BUYER = re.compile(r"[\x21-\x7e]{1,120}")
KEY = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(frozen=True, slots=True)
class Buyer:
    """`name` is the pass's subject; `shown_pass` is the pass itself, to be forwarded."""

    name: str
    shown_pass: str | None


def buyer_of(request: Request) -> Buyer:
    """The buyer whom the gate let through. Raises Problem pass-required when there is none."""
    name = request.headers.get("Fairgate-Buyer", "")
    if not BUYER.fullmatch(name):
        raise Problem("pass-required", "This shop is entered through its gate: join the line first.")
    return Buyer(name, request.headers.get("Fairgate-Pass"))


def key_of(request: Request) -> str:
    """The call's Idempotency-Key. Raises Problem key-missing or malformed."""
    key = request.headers.get("Idempotency-Key")
    if not key:
        raise Problem("key-missing", "Send an Idempotency-Key, the same one for every repeat of this call.")
    return checked_key(key)


def checked_key(key: str) -> str:
    """`key` when it can be used. Raises Problem malformed."""
    if not KEY.fullmatch(key):
        raise Problem("malformed", "An Idempotency-Key has 1 to 128 visible ASCII characters.")
    return key
