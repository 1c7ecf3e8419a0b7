"""One-time codes to go on in line from another device: short enough to type, worthless once used, stored as hashes only.

A code moves the place: the device that made it is refused afterwards, and told why. The place's public name stays, and so
does its pass: whoever holds the place claims the same one.
"""

import base64
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime

from admission.book import View
from admission.keyring import Keyring
from admission.tickets import Ticket, read_words
from admission.waiting_room import Entered
from chassis.database import Pool, read_text
from chassis.http import invalid_fields
from chassis.problems import Problem

CODE_SECONDS = 600.0
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base32: 5 bits each, nothing that reads like another
CODE_CHARACTERS = 12
GROUP_CHARACTERS = 4
TYPED_CHARACTERS_MAX = 64
_READ_AS = str.maketrans({"O": "0", "I": "1", "L": "1"})


@dataclass(frozen=True, slots=True)
class RecoveryCode:
    """A code to show once, and until when it counts."""

    code: str
    expires_at: datetime


class RecoveryCodes:
    """Makes and redeems codes, in Postgres."""

    def __init__(self, pool: Pool, keyring: Keyring, master_key: bytes) -> None:
        self._pool = pool
        self._keyring = keyring
        self._key = hmac.digest(master_key, b"fairgate recovery codes", "sha256")

    async def make(self, view: View, ticket: Ticket) -> RecoveryCode:
        """A new code for the ticket's place; an earlier one is void. Raises Problem ticket-refused once it has moved."""
        code = new_code()
        expires_at = await self._pool.fetchval(
            read_text("admission", "sql", "keep_recovery_code.sql"),
            view.room.name,
            view.room.epoch,
            ticket.ticket_id,
            ticket.client_id,
            self._hash(view, code),
            ticket.words(),
            CODE_SECONDS,
        )
        if expires_at is None:
            detail = "This place is not held here any more: it moved to another device, or was taken back."
            raise Problem("ticket-refused", detail, reason="moved")
        return RecoveryCode(code, expires_at)

    async def redeem(self, view: View, typed: str, client_id: str) -> Entered:
        """The code's place, in the hands of `client_id`; the same device redeeming again hears the same.

        Raises Problem recovery-refused for a code that is wrong, used, void or expired, and invalid for a client_id that
        holds or held the place: a device that has given a place away needs a new secret to take it back.
        """
        code = read_code(typed)
        row = None
        if code is not None:
            row = await self._pool.fetchrow(
                read_text("admission", "sql", "redeem_recovery_code.sql"),
                view.room.name,
                view.room.epoch,
                self._hash(view, code),
                client_id,
            )
        if row is None:
            raise Problem(
                "recovery-refused",
                "No place waits behind this code: it may be mistyped, used, replaced by a newer one, or older than ten minutes.",
            )
        if row["outcome"] == "own":
            raise invalid_fields([("/client_id", "has or had this place itself: make a new secret")])
        ticket = read_words(row["ticket"]).moved_to(client_id)
        return Entered(ticket, self._keyring.ticket_keys.sign(ticket), row["outcome"] == "repeated")

    def secret_for(self, view: View, typed: str, attempt: str) -> str:
        """The secret of a browser that redeems by a form: the same for the same form sent twice, nobody's guess."""
        said = f"secret\n{view.room.name}\n{view.room.epoch}\n{read_code(typed)}\n{attempt}"
        return base64.urlsafe_b64encode(hmac.digest(self._key, said.encode(), "sha256")).rstrip(b"=").decode()

    def _hash(self, view: View, code: str) -> bytes:
        """Keyed, so that the table alone, without the master key, does not even tell a right guess from a wrong one."""
        return hmac.digest(self._key, f"code\n{view.room.name}\n{view.room.epoch}\n{code}".encode(), "sha256")


def new_code() -> str:
    """60 random bits, as they are shown: 7KQ2-M4ZD-9RTW."""
    characters = "".join(secrets.choice(ALPHABET) for _ in range(CODE_CHARACTERS))
    return _grouped(characters)


def read_code(typed: str) -> str | None:
    """What somebody typed as the code that was shown: case, spaces and dashes do not count, O is 0, I and L are 1.

    None when it cannot be a code.
    """
    if len(typed) > TYPED_CHARACTERS_MAX:
        return None
    characters = "".join(one for one in typed.upper() if one.isalnum()).translate(_READ_AS)
    if len(characters) != CODE_CHARACTERS or not set(characters) <= set(ALPHABET):
        return None
    return _grouped(characters)


def _grouped(characters: str) -> str:
    groups = range(0, CODE_CHARACTERS, GROUP_CHARACTERS)
    return "-".join(characters[start : start + GROUP_CHARACTERS] for start in groups)
