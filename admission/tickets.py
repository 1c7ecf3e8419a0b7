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
Refusal = Literal["malformed", "unknown-key", "revoked-key", "forged", "wrong-room", "old-epoch"]

CLIENT_ID = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")  # the only way to write 32 bytes
TICKET_ID = re.compile(r"[A-Za-z0-9_-]{22}")
SECRET = CLIENT_ID  # 32 bytes too
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
    """A place in line: an `entry` in the draw or a `number` behind it. `joined_at` is in Unix seconds.

    `client_id` is the device's that holds the place now; `first_client_id` the one that joined, where the place moved.
    """

    room: str
    epoch: int
    kind: Kind
    index: int
    joined_at: int
    client_id: str
    first_client_id: str | None = None

    @property
    def entrant(self) -> str:
        """The client_id that joined: the place, its leaf in the draw and its pass are bound to it wherever it moves."""
        return self.client_id if self.first_client_id is None else self.first_client_id

    @property
    def ticket_id(self) -> str:
        """The public name of this place: a function of room, epoch and whoever joined."""
        digest = hashlib.sha256(f"fairgate ticket\n{self.room}\n{self.epoch}\n{self.entrant}".encode()).digest()
        return _text(digest[:16])

    def moved_to(self, client_id: str) -> "Ticket":
        """The same place in the hands of another device."""
        return msgspec.structs.replace(self, client_id=client_id, first_client_id=self.entrant)

    def words(self) -> bytes:
        """What is signed. A place that never moved is written as the version before wrote it, and reads it."""
        fields = msgspec.structs.astuple(self)
        return msgspec.json.encode(fields[:-1] if self.first_client_id is None else fields)


@dataclass(frozen=True, slots=True)
class TicketKeys:
    """The MAC keys: `current` signs, all of `keys` (by kid) verify; `revoked` are the kids that must not any more."""

    current: str
    keys: Mapping[str, bytes]
    revoked: frozenset[str] = frozenset()

    def knows(self, kid: str) -> bool:
        """Whether `kid` names a key of ours, revoked or not."""
        return kid in self.keys or kid in self.revoked

    def sign(self, ticket: Ticket) -> str:
        """The token for `ticket`; the same ticket and key give the same token."""
        signed = f"fgt1.{self.current}.{_text(ticket.words())}"
        return f"{signed}.{_text(_mac(self.keys[self.current], signed))}"

    def read(self, token: str, room: str, epoch: int) -> Ticket:
        """The ticket behind `token`, for this room and epoch. Raises TicketRefused."""
        form = _FORM.fullmatch(token) if len(token) <= TOKEN_CHARACTERS_MAX else None
        if form is None:
            raise TicketRefused("malformed")
        key = self.keys.get(form["kid"])
        if key is None:
            raise TicketRefused("revoked-key" if form["kid"] in self.revoked else "unknown-key")
        if not hmac.compare_digest(_text(_mac(key, form["signed"])), form["mac"]):
            raise TicketRefused("forged")
        ticket = read_words(base64.urlsafe_b64decode(form["body"] + "=="))
        if ticket.room != room:
            raise TicketRefused("wrong-room")
        if ticket.epoch != epoch:
            raise TicketRefused("old-epoch")
        return ticket


def read_words(words: bytes) -> Ticket:
    """The ticket behind words that we signed or kept ourselves."""
    return msgspec.json.decode(words, type=Ticket)


def key_named(token: str) -> str | None:
    """The kid that `token` names, unchecked; None when it has not the form of a ticket."""
    form = _FORM.fullmatch(token) if len(token) <= TOKEN_CHARACTERS_MAX else None
    return None if form is None else form["kid"]


def read_unverified(token: str) -> Ticket:
    """What a token says, its MAC unchecked: for its owner, who has no key. Raises TicketRefused."""
    form = _FORM.fullmatch(token) if len(token) <= TOKEN_CHARACTERS_MAX else None
    if form is None:
        raise TicketRefused("malformed")
    try:
        return read_words(base64.urlsafe_b64decode(form["body"] + "=="))
    except (msgspec.MsgspecError, ValueError):
        raise TicketRefused("malformed") from None


def new_secret() -> str:
    """A client's secret, 256 random bits in base64url."""
    return secrets.token_urlsafe(SECRET_BYTES)


def next_secret(secret: str) -> str:
    """The secret that its holder joins with again: asking twice gives one new place, and nobody else can know it."""
    return _text(hmac.digest(secret.encode(), b"fairgate next secret", "sha256"))


def client_id_of(secret: str) -> str:
    """The client_id that `secret` proves: base64url(SHA-256(secret)), 43 characters."""
    return _text(hashlib.sha256(secret.encode()).digest())


def client_digest(client_id: str) -> bytes:
    """The 32 bytes that a client_id writes."""
    return base64.urlsafe_b64decode(client_id + "=")


def proves(secret: str, ticket: Ticket) -> bool:
    """Whether `secret` belongs to `ticket`, compared in constant time."""
    return hmac.compare_digest(client_id_of(secret), ticket.client_id)


def _mac(key: bytes, signed: str) -> bytes:
    return hmac.digest(key, signed.encode(), "sha256")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
