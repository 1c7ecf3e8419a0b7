"""Tickets: a signed place in a room's line that says everything about itself, so that it can be read without a store.

Pure. A ticket shows a place; claiming it also needs the secret whose SHA-256 is its client_id, so that a ticket seen in
a log or over a shoulder is worth nothing. Tickets are MACed texts of their own form: one never passes as a JWT.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

Kind = Literal["entry", "number"]
Refusal = Literal["malformed", "unknown-key", "forged", "wrong-room", "old-epoch"]

CLIENT_ID = re.compile(r"[A-Za-z0-9_-]{43}")
SECRET_BYTES = 32
TOKEN_CHARACTERS_MAX = 512
_FORM = re.compile(
    r"(?P<signed>fgt1\.(?P<kid>[A-Za-z0-9_-]{1,32})\.(?P<body>[A-Za-z0-9_-]{1,384}))\.(?P<mac>[A-Za-z0-9_-]{43})"
)


class TicketRefused(Exception):
    """The token is no ticket for this room; `reason` says why."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason)
        self.reason: Refusal = reason


class Ticket(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A place in line: an `entry` in the draw or a `number` behind it. `joined_at` is in Unix seconds."""

    room: str
    epoch: int
    kind: Kind
    index: int
    joined_at: int
    client_id: str

    @property
    def ticket_id(self) -> str:
        """The public name of this place: a function of room, epoch and client."""
        digest = hashlib.sha256(f"fairgate ticket\n{self.room}\n{self.epoch}\n{self.client_id}".encode()).digest()
        return _text(digest[:16])


@dataclass(frozen=True, slots=True)
class TicketKeys:
    """The MAC keys: `current` signs, all of `keys` (by kid) verify."""

    current: str
    keys: Mapping[str, bytes]

    def sign(self, ticket: Ticket) -> str:
        """The token for `ticket`; the same ticket and key give the same token."""
        signed = f"fgt1.{self.current}.{_text(msgspec.json.encode(ticket))}"
        return f"{signed}.{_text(_mac(self.keys[self.current], signed))}"

    def read(self, token: str, room: str, epoch: int) -> Ticket:
        """The ticket behind `token`, for this room and epoch. Raises TicketRefused."""
        form = _FORM.fullmatch(token) if len(token) <= TOKEN_CHARACTERS_MAX else None
        if form is None:
            raise TicketRefused("malformed")
        key = self.keys.get(form["kid"])
        if key is None:
            raise TicketRefused("unknown-key")
        if not hmac.compare_digest(_text(_mac(key, form["signed"])), form["mac"]):
            raise TicketRefused("forged")
        ticket = msgspec.json.decode(base64.urlsafe_b64decode(form["body"] + "=="), type=Ticket)
        if ticket.room != room:
            raise TicketRefused("wrong-room")
        if ticket.epoch != epoch:
            raise TicketRefused("old-epoch")
        return ticket


def new_secret() -> str:
    """A client's secret, 256 random bits in base64url."""
    return secrets.token_urlsafe(SECRET_BYTES)


def client_id_of(secret: str) -> str:
    """The client_id that `secret` proves: base64url(SHA-256(secret)), 43 characters."""
    return _text(hashlib.sha256(secret.encode()).digest())


def proves(secret: str, ticket: Ticket) -> bool:
    """Whether `secret` belongs to `ticket`, compared in constant time."""
    return hmac.compare_digest(client_id_of(secret), ticket.client_id)


def _mac(key: bytes, signed: str) -> bytes:
    return hmac.digest(key, signed.encode(), "sha256")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
