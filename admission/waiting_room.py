"""What a buyer may do in a room: join, see a place, claim a pass, leave. Every verb is safe to repeat."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import assert_never

from admission.away import Away
from admission.batches import Batches
from admission.book import Book, View
from admission.claim_keeper import TURN, Claim, ClaimKeeper
from admission.held_claims import Gone, HeldClaims
from admission.keyring import Keyring
from admission.line import (
    AllExtended,
    ClaimAnswer,
    Closed,
    Delayed,
    Early,
    Ended,
    Extended,
    Granted,
    Handle,
    JoinAnswer,
    Joined,
    Joining,
    JoinRefused,
    Line,
    Missed,
    Used,
)
from admission.metrics import CLAIMS, JOINS
from admission.passes import Pass, pass_id
from admission.redis_bond import LineAway
from admission.restoring import Restorer
from admission.revocations import RevokedTickets
from admission.standing import Place, may_be_reached, queued, reached
from admission.tickets import Ticket
from admission.trust import Trust
from chassis.database import STORE_AWAY, Pool, read_text
from chassis.problems import Problem, busy

LIMIT_ATTEMPTS_MAX = 4
RENEWAL_SECONDS_MAX = 60  # how long a renewal may be under way, clocks that differ included
KEPT_SECONDS = 60  # a claim repeated later than this is in Postgres by then, from its worker or from Redis


@dataclass(frozen=True, slots=True)
class Entered:
    """A ticket and its token; `repeated` when the client had this place already."""

    ticket: Ticket
    token: str
    repeated: bool


@dataclass(frozen=True, slots=True)
class Admitted:
    """A pass and its token; `repeated` when it was granted by an earlier claim."""

    granted: Pass
    token: str
    repeated: bool


class WaitingRoom:
    """The verbs of all rooms, as one worker offers them."""

    def __init__(
        self,
        pool: Pool,
        line: Line,
        book: Book,
        keyring: Keyring,
        trust: Trust,
        restorer: Restorer,
        revoked_tickets: RevokedTickets,
        keeper: ClaimKeeper,
        away: Away,
    ) -> None:
        self._pool = pool
        self._line = line
        self._joins: Batches[Handle, Joining, JoinAnswer] = Batches(line.join)
        self._claims = HeldClaims(line.claim)
        self._book = book
        self._keyring = keyring
        self._trust = trust
        self._restorer = restorer
        self._revoked_tickets = revoked_tickets
        self._keeper = keeper
        self._away = away

    async def join(self, view: View, client_id: str, shown: Ticket | None) -> Entered:
        """A place for `client_id`; whoever shows its ticket, or joined before, gets the same place.

        Raises Problem room-closed, ticket-refused for a place that was revoked, and busy when neither Redis nor Postgres can give out a new number now.
        """
        keys = self._keyring.ticket_keys
        if shown is not None and shown.client_id == client_id:
            await self._restorer.restore(view, shown)
            return Entered(shown, keys.sign(shown), repeated=True)
        joined = await self._number(view, client_id)
        ticket = Ticket(view.room.name, view.room.epoch, joined.kind, joined.index, int(view.now_ms / 1000), client_id)
        refusal = self._revoked_tickets.refusal(ticket)
        if refusal is not None:
            raise refusal
        JOINS.labels(view.room.name, "repeated" if joined.repeated else "joined").inc()
        return Entered(ticket, keys.sign(ticket), joined.repeated)

    async def place(self, view: View, ticket: Ticket) -> Place:
        """Where the ticket stands. Answers from the ticket alone while Redis is away."""
        await self._restorer.restore(view, ticket)
        place = view.layout.place_of(ticket)
        if (standing := self._away.standing(view, ticket, place)) is not None:
            return replace(reached(view, place or 0, standing), place=place, reachable=False)
        with suppress(Problem):
            await self._issue_again(view, ticket)
        if place is None or not may_be_reached(view, place):
            return queued(view, place)
        try:
            standing = await self._line.look(_handle(view), ticket.ticket_id, place)
        except LineAway:
            return replace(queued(view, place), reachable=False)
        if standing.state == "missed" and await self._was_admitted(view, ticket):
            return Place("ended", place, None, None)
        return reached(view, place, standing)

    async def claim(self, view: View, ticket: Ticket, gone: Gone) -> Admitted:
        """The pass of a called ticket; a repeat returns the same one. It may take two seconds at the rate, unless `gone` ends.

        Raises Problem not-called (with Retry-After) before its turn or while the room refuses, turn-missed after it,
        busy while Redis is away.
        """
        place = view.layout.place_of(ticket)
        answer = await self._away.admit(view, ticket, place) or await self._claim(view, ticket, gone)
        match answer:
            case Granted(issued_at, expires_at, repeated):
                CLAIMS.labels(view.room.name, "repeated" if repeated else "granted").inc()
                jti = pass_id(ticket.ticket_id, TURN)
                granted = Pass(view.room.name, ticket.ticket_id, jti, issued_at, expires_at, epoch=view.room.epoch)
                return Admitted(granted, self._keyring.signer.sign(granted), repeated)
            case Early(called):
                raise self._early(view, place or 0, called)
            case Delayed(reason, wait_seconds):
                raise self._not_called(
                    view, "You are called, and keep your turn while the room lets nobody in.", wait_seconds, reason, 0
                )
            case Missed():
                CLAIMS.labels(view.room.name, "missed").inc()
                raise Problem("turn-missed", MISSED)
            case Closed():
                CLAIMS.labels(view.room.name, "closed").inc()
                raise Problem("room-closed", _WHY_CLOSED["closed"], reason="closed")
            case Ended():
                CLAIMS.labels(view.room.name, "ended").inc()
                raise Problem("turn-missed", "This turn was used and its pass is over. Join again for a new place.")
            case _:
                assert_never(answer)

    async def extend(self, view: View, ticket: Ticket) -> Place:
        """More time for a called ticket, or its one more turn within the grace of a missed one: where it stands then.

        A repeat within two seconds adds nothing; nor does one for a turn that was claimed. Raises Problem extension-limit,
        not-called before the turn, turn-missed after it, room-closed, busy while Redis is away.
        """
        place = self._drawn_place(view, ticket)
        answer = await self._line.extend(_handle(view), ticket.ticket_id, place)
        match answer:
            case Extended() | Used():
                return await self.place(view, ticket)
            case AllExtended():
                raise Problem(
                    "extension-limit", "This turn was given more time as often as the room allows.", extensions_left=0
                )
            case Early(called):
                raise self._early(view, place, called)
            case Missed():
                raise Problem("turn-missed", MISSED)
            case Closed():
                raise Problem("room-closed", _WHY_CLOSED["closed"], reason="closed")
            case _:
                assert_never(answer)

    async def leave(self, view: View, ticket_id: str, shown: Pass | None) -> None:
        """Give the slot back at once; its pass is refused everywhere within the second in which verifiers read.

        The pass is revoked before the slot is free, so that a crash between leaves a slot that expires by itself; for as
        long as a renewal that is under way may make it last, and longer still if the line then says so.
        Raises Problem busy while a store is away.
        """
        handle = _handle(view)
        if shown is None:
            standing = await self._line.look(handle, ticket_id, 0)
            if standing.state != "admitted" or standing.expires_at is None:
                return
            expires_at = standing.expires_at
        else:
            expires_at = shown.expires_at
        expires_at = max(expires_at, int(view.now_ms / 1000) + view.room.settings.pass_seconds + RENEWAL_SECONDS_MAX)
        await self._revoke(view, ticket_id, expires_at)
        longest = await self._line.leave(handle, ticket_id)
        if longest is not None and longest > expires_at:
            await self._revoke(view, ticket_id, longest)
        CLAIMS.labels(view.room.name, "left").inc()

    async def _revoke(self, view: View, ticket_id: str, expires_at: int) -> None:
        jti = pass_id(ticket_id, TURN)
        await self._pool.execute(read_text("admission", "sql", "revoke_pass.sql"), view.room.name, jti, expires_at)
        self._trust.verifier.revoke([(jti, expires_at)], time.time())

    def _drawn_place(self, view: View, ticket: Ticket) -> int:
        """The ticket's place. Raises Problem not-called while it is still to be drawn, unless everybody passes."""
        place = view.layout.place_of(ticket)
        if place is None and view.room.settings.method == "passthrough":
            return 0
        if place is None:
            raise self._not_called(view, "The places are not drawn yet.", 2.0, "not-drawn", None)
        return place

    def _early(self, view: View, place: int, called: int) -> Problem:
        ahead = place - called - 1
        wait_seconds = (ahead + 1) * 60 / view.room.settings.rate_per_minute
        return self._not_called(view, "The line has not reached this place.", wait_seconds, "early", ahead)

    async def _claim(self, view: View, ticket: Ticket, gone: Gone) -> ClaimAnswer:
        """What Redis says to a claim; a slot counts only once Postgres keeps it."""
        await self._issue_again(view, ticket)
        place, handle = self._drawn_place(view, ticket), _handle(view)
        pace = view.room.settings.rate_per_minute if view.figures is None else view.figures.pace_per_minute
        answer = await self._claims.claim(handle, ticket.ticket_id, place, pace, gone)
        if isinstance(answer, Granted) and answer.issued_at > view.now_ms / 1000 - KEPT_SECONDS:
            claim = Claim(ticket.ticket_id, place, answer.issued_at, answer.expires_at)
            kept = await self._keeper.keep(handle, claim)
            if kept.ended:  # Redis had forgotten that this ticket was used
                await self._line.leave(handle, ticket.ticket_id)
                return Ended()
            return Granted(kept.issued_at, kept.expires_at, answer.repeated)
        return answer

    async def _issue_again(self, view: View, ticket: Ticket) -> None:
        """Issue the place of a ticket that Redis forgot as the last one: it would be called only once somebody else comes.

        Its device joins again, behind the gap that its number lies in, which is the very same place.
        """
        if view.figures is not None and view.layout.forgotten_last(ticket, view.figures.numbers):
            await self._number(view, ticket.client_id)

    async def _number(self, view: View, client_id: str) -> Joined:
        """An entry or number from Redis, below a limit that Postgres holds."""
        entry_limit, number_limit = view.entry_limit, view.number_limit
        for _ in range(LIMIT_ATTEMPTS_MAX):
            answer = await self._joins.ask(_handle(view), Joining(client_id, entry_limit, number_limit))
            if isinstance(answer, Joined):
                return answer
            if isinstance(answer, JoinRefused):
                JOINS.labels(view.room.name, answer.reason).inc()
                raise Problem("room-closed", _WHY_CLOSED[answer.reason], reason=answer.reason)
            row = await self._book.raise_limit(view, answer.kind, answer.limit)
            entry_limit, number_limit = row["entry_limit"], row["number_limit"]
        raise busy("Numbers run out faster than they can be prepared.")

    async def _was_admitted(self, view: View, ticket: Ticket) -> bool:
        with suppress(*STORE_AWAY):
            found = await self._pool.fetchval(
                read_text("admission", "sql", "find_claim.sql"), view.room.name, view.room.epoch, ticket.ticket_id
            )
            return found is not None
        return False

    def _not_called(self, view: View, detail: str, wait_seconds: float, reason: str, ahead: int | None) -> Problem:
        CLAIMS.labels(view.room.name, reason).inc()
        seconds = min(max(1, round(wait_seconds)), 30)
        return Problem("not-called", detail, headers={"Retry-After": str(seconds)}, reason=reason, ahead=ahead)


MISSED = (
    "The turn ended before the place was claimed, and so did the time to come back to it. Join again for a new place."
)
_WHY_CLOSED = {
    "not-yet": "The room takes entries later: see prequeue_at in its status.",
    "closed": "The sale is over.",
    "rejecting": "The room takes nobody for the moment.",
    "full": "As many have joined as the room takes.",
}


def _handle(view: View) -> Handle:
    if view.handle is None:
        raise LineAway("the room is being prepared")
    return view.handle
