"""Checks what a buyer shows: a ticket of this room, the secret behind it, a pass."""

import time
from contextlib import suppress

from starlette.requests import Request

from admission.book import View
from admission.cookies import Cookies
from admission.keyring import Keyring
from admission.passes import Pass, PassRefused, PassVerifier
from admission.tickets import Ticket, TicketRefused, proves
from chassis.problems import Problem, busy


class Credentials:
    """Reads tickets, secrets and passes off requests."""

    def __init__(self, cookies: Cookies, keyring: Keyring, verifier: PassVerifier) -> None:
        self._cookies = cookies
        self._keyring = keyring
        self._verifier = verifier

    def find_ticket(self, request: Request, view: View) -> Ticket | None:
        """The first valid ticket for this room, or None."""
        for token in self._cookies.shown(request, "ticket", view.room.name):
            try:
                return self._keyring.ticket_keys.read(token, view.room.name, view.room.epoch)
            except TicketRefused:
                continue
        return None

    def ticket(self, request: Request, view: View) -> Ticket:
        """The ticket that `request` shows. Raises Problem ticket-required or ticket-refused."""
        shown = self._cookies.shown(request, "ticket", view.room.name)
        if not shown:
            raise Problem("ticket-required", "Show a ticket as Fairgate-Ticket; POST …/tickets gives one.")
        found = self.find_ticket(request, view)
        if found is None:
            raise Problem(
                "ticket-refused", "This is no ticket for this room's present line.", reason=self._why(shown[0], view)
            )
        return found

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

    def was_admitted(self, request: Request, room: str) -> bool:
        """Whether `request` shows a pass of ours for `room` that is over: expired, given back or revoked."""
        for token in self._cookies.shown(request, "pass", room):
            with suppress(PassRefused):
                if self._verifier.read(token).room == room:
                    return True
        return False

    def find_pass(self, request: Request, room: str) -> tuple[Pass, str] | None:
        """The first valid pass for `room` and its token, or None. Touches no store."""
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
