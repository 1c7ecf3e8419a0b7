"""Checks what a buyer shows: a ticket of this room, the secret behind it, a pass."""

import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from starlette.requests import Request

from admission.book import View
from admission.cookies import Cookies
from admission.keyring import Keyring
from admission.passes import Pass, PassRefused
from admission.revocations import RevokedTickets
from admission.tickets import Ticket, TicketRefused, key_named, proves
from admission.trust import Trust
from chassis.problems import Problem, busy

# What a refused ticket's owner can do about it.
_REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "malformed": "It is none of our tickets, or not all of one.",
        "unknown-key": "It is signed with a key that we do not know.",
        "revoked-key": "The key that signed it was revoked. Join again with the same client_id: its place is kept.",
        "forged": "Its signature is wrong.",
        "wrong-room": "It is for another room.",
        "old-epoch": "It is for a sale that is over: join again.",
    }
)


class Credentials:
    """Reads tickets, secrets and passes off requests."""

    def __init__(self, cookies: Cookies, keyring: Keyring, trust: Trust, revoked_tickets: RevokedTickets) -> None:
        self._cookies = cookies
        self._keyring = keyring
        self._trust = trust
        self._verifier = trust.verifier
        self._revoked_tickets = revoked_tickets

    async def learn_keys(self, request: Request, room: str) -> None:
        """Before tickets are judged: read the keys again when one names a key that this worker does not know yet."""
        for token in self._cookies.shown(request, "ticket", room):
            kid = key_named(token)
            if kid is not None:
                await self._keyring.learn(kid)

    def find_ticket(self, request: Request, view: View) -> Ticket | None:
        """The first valid ticket for this room, or None."""
        for token in self._cookies.shown(request, "ticket", view.room.name):
            try:
                ticket = self._keyring.ticket_keys.read(token, view.room.name, view.room.epoch)
            except TicketRefused:
                continue
            if self._revoked_tickets.refusal(ticket) is None:
                return ticket
        return None

    def ticket(self, request: Request, view: View) -> Ticket:
        """The ticket that `request` shows. Raises Problem ticket-required or ticket-refused."""
        shown = self._cookies.shown(request, "ticket", view.room.name)
        if not shown:
            raise Problem("ticket-required", "Show a ticket as Fairgate-Ticket; POST …/tickets gives one.")
        found = self.find_ticket(request, view)
        if found is None:
            revoked = self.revocation(request, view)
            if revoked is not None:
                raise revoked
            reason = self._why(shown[0], view)
            raise Problem("ticket-refused", f"The ticket is not accepted. {_REFUSALS[reason]}", reason=reason)
        return found

    def revocation(self, request: Request, view: View) -> Problem | None:
        """Why the ticket that `request` shows was revoked, in words for its owner; None where none of them was."""
        for token in self._cookies.shown(request, "ticket", view.room.name):
            with suppress(TicketRefused):
                ticket = self._keyring.ticket_keys.read(token, view.room.name, view.room.epoch)
                return self._revoked_tickets.refusal(ticket)
        return None

    def proven_ticket(self, request: Request, view: View) -> Ticket:
        """The ticket whose secret `request` shows too. Raises Problem ticket-…, secret-required or secret-refused."""
        ticket = self.ticket(request, view)
        secrets = self._cookies.shown(request, "secret", view.room.name)
        if not secrets:
            raise Problem("secret-required", "Show the secret that belongs to this ticket as Fairgate-Secret.")
        if not any(proves(secret, ticket) for secret in secrets):
            raise Problem("secret-refused", "The secret is not the one that this ticket was made with.")
        return ticket

    def require_keys(self) -> None:
        """Raise Problem busy while no key is known: then no pass can be judged, and none must be called bad."""
        if not self._verifier.public_keys:
            raise busy("The keys that verify passes are not read yet. Try again shortly.")

    def past_pass(self, request: Request, room: str) -> Pass | None:
        """The first pass of ours for `room`, also one that is over: expired, given back or revoked."""
        for token in self._cookies.shown(request, "pass", room):
            with suppress(PassRefused):
                shown = self._verifier.read(token)
                if shown.room == room:
                    return shown
        return None

    async def live_pass(self, request: Request, room: str) -> tuple[Pass, str] | None:
        """The first valid pass for `room` and its token, or None.

        Touches no store, but once a second at most for passes that name a key which this worker does not know yet.
        """
        found = self._find_pass(request, room)
        if found is None:
            for token in self._cookies.shown(request, "pass", room):
                if await self._trust.learn(token):
                    return self._find_pass(request, room)
        return found

    def ticket_refusal(self, request: Request, view: View) -> str | None:
        """Why the ticket that `request` shows is refused; None when it shows none, or a good one."""
        shown = self._cookies.shown(request, "ticket", view.room.name)
        if not shown or self.find_ticket(request, view) is not None:
            return None
        revoked = self.revocation(request, view)
        return self._why(shown[0], view) if revoked is None else str(revoked.extensions["reason"])

    def _find_pass(self, request: Request, room: str) -> tuple[Pass, str] | None:
        now = time.time()
        for token in self._cookies.shown(request, "pass", room):
            try:
                return self._verifier.verify(token, room, now), token
            except PassRefused:
                continue
        return None

    def _why(self, token: str, view: View) -> str:
        try:
            self._keyring.ticket_keys.read(token, view.room.name, view.room.epoch)
        except TicketRefused as refused:
            return refused.reason
        return "malformed"
