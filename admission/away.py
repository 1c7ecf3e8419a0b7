"""Who is let in while Redis is away, by the room's policy: nobody, everybody, or as many as the last rate lets in.

Such admissions are the operator's stated exceptions to the line's order, counted apart. Their times are worked out from the
ticket or its call, so that a repeat at any worker gives the same pass; Postgres's word on a claim comes first.
"""

import time
from contextlib import suppress
from dataclasses import dataclass

from admission.book import View
from admission.claim_keeper import Claim, ClaimKeeper
from admission.line import Delayed, Early, Ended, Granted, Standing
from admission.redis_bond import LineAway
from admission.room_settings import AwayPolicy, phase_of
from admission.shares import Shares
from admission.tickets import Ticket
from chassis.database import STORE_AWAY, Pool, read_text

AWAY_SECONDS_MIN = 3.0  # a shorter absence is waited out: every place is safe
REMEMBERED_MAX = 100_000
AwayAnswer = Granted | Early | Delayed | Ended


@dataclass(frozen=True, slots=True)
class Times:
    """A pass's times, Unix seconds."""

    issued_at: int
    expires_at: int


@dataclass(slots=True)
class Bucket:
    """What a worker may still admit of its share; empty when the absence begins."""

    tokens: float
    filled_at: float

    def take(self, rate_per_minute: float, now: float) -> float:
        """Take one token at `now` (seconds): 0, or how many seconds until there is one."""
        refilled = self.tokens + rate_per_minute * (now - self.filled_at) / 60
        self.tokens, self.filled_at = min(max(1.0, rate_per_minute / 60), refilled), now
        if self.tokens < 1:
            return (1 - self.tokens) * 60 / rate_per_minute
        self.tokens -= 1
        return 0.0


class Away:
    """What one worker admits by itself."""

    def __init__(self, pool: Pool, keeper: ClaimKeeper, shares: Shares) -> None:
        self._pool = pool
        self._keeper = keeper
        self._shares = shares
        self._buckets: dict[str, Bucket] = {}
        self._admitted: dict[tuple[str, int, str], Claim] = {}

    def policy(self, view: View) -> AwayPolicy:
        """What holds for the room now: `closed` too while its Redis answers or has been away for a moment only."""
        if view.away_since is None or time.monotonic() - view.away_since < AWAY_SECONDS_MIN:
            return "closed"
        if view.handle is None or phase_of(view.room.settings, view.now_ms) != "open":
            return "closed"
        if view.room.settings.method == "reject":
            return "closed"
        return view.room.settings.away_policy

    def standing(self, view: View, ticket: Ticket, place: int | None) -> Standing | None:
        """Where a ticket stands while its room admits without Redis; None where nobody is admitted so."""
        policy = self.policy(view)
        if policy == "closed":
            return None
        admitted = self._admitted.get((view.room.name, view.room.epoch, ticket.ticket_id))
        if admitted is not None and admitted.expires_at > view.now_ms / 1000:
            return Standing("admitted", expires_at=admitted.expires_at)
        if policy == "open":
            return Standing("called", turn_left_seconds=view.room.settings.turn_seconds)
        called = called_away(view, view.now_ms)
        if place is None or place > called:
            return Standing("waiting", called=called)
        left_ms = called_at_ms(view, place) + view.room.settings.turn_seconds * 1000 - view.now_ms
        return Standing("called", turn_left_seconds=left_ms / 1000) if left_ms > 0 else None

    async def admit(self, view: View, ticket: Ticket, place: int | None) -> AwayAnswer | None:
        """A pass without Redis; None where the room waits for it. A repeat gives the same pass.

        Raises LineAway when Redis is back, or when this ticket's turn must wait for it.
        """
        policy = self.policy(view)
        if policy == "closed":
            return None
        known = await self._known(view, ticket)
        if known is not None:
            return known
        answer = self._open(view, ticket) if policy == "open" else self._by_rate(view, place)
        if not isinstance(answer, Times):
            return answer
        assert view.handle is not None
        claim = Claim(ticket.ticket_id, place or 0, answer.issued_at, answer.expires_at)
        kept = await self._keeper.keep(view.handle, claim, away=True)
        if len(self._admitted) >= REMEMBERED_MAX:
            del self._admitted[next(iter(self._admitted))]
        self._admitted[view.room.name, view.room.epoch, ticket.ticket_id] = kept
        return Granted(kept.issued_at, kept.expires_at, repeated=False)

    async def _known(self, view: View, ticket: Ticket) -> Granted | Ended | None:
        """What became of the ticket's claim, if it has one: this worker's memory is asked where Postgres is away."""
        if not self._keeper.postgres_away:
            with suppress(*STORE_AWAY):
                found = await self._pool.fetchrow(
                    read_text("admission", "sql", "find_claim.sql"), view.room.name, view.room.epoch, ticket.ticket_id
                )
                if found is None:
                    return None
                if found["revoked"] or found["expires_at"] <= view.now_ms / 1000:
                    return Ended()
                return Granted(found["issued_at"], found["expires_at"], repeated=True)
        own = self._admitted.get((view.room.name, view.room.epoch, ticket.ticket_id))
        if own is None:
            return None
        return Granted(own.issued_at, own.expires_at, True) if own.expires_at > view.now_ms / 1000 else Ended()

    def _open(self, view: View, ticket: Ticket) -> Times:
        """The pass of whoever shows a ticket: in windows counted from its joining, so that any worker says the same."""
        window = view.room.settings.pass_seconds
        windows = max(0, int(view.now_ms / 1000) - ticket.joined_at) // window
        issued_at = ticket.joined_at + windows * window
        return Times(issued_at, issued_at + 2 * window)

    def _by_rate(self, view: View, place: int | None) -> Times | Early | Delayed:
        """The pass of a place that the line would have reached, while this worker's share lasts."""
        settings = view.room.settings
        share = self._shares.rate_per_minute(view.room.name)
        called = called_away(view, view.now_ms)
        if place is None or share is None or view.figures is None:
            raise LineAway("it is away")
        if place > called:
            return Early(called)
        called_ms = called_at_ms(view, place)
        if view.now_ms > called_ms + settings.turn_seconds * 1000:
            raise LineAway("it is away; your turn comes when it is back")
        assert view.away_since is not None
        bucket = self._buckets.get(view.room.name)
        if bucket is None or bucket.filled_at < view.away_since:
            bucket = self._buckets[view.room.name] = Bucket(0.0, view.away_since)
        wait_seconds = bucket.take(share, time.monotonic()) if share > 0 else 60.0
        if wait_seconds > 0:
            return Delayed("rate", wait_seconds)
        issued_at = int(called_ms / 1000)
        return Times(issued_at, issued_at + settings.turn_seconds + settings.pass_seconds)


def called_away(view: View, now_ms: float) -> int:
    """How far the line would have come at `now_ms` at the operator's rate: on from the end of its last segment."""
    start_ms, called = _last_segment(view)
    elapsed_ms = max(0.0, now_ms - start_ms)
    return int(min(called + view.room.settings.rate_per_minute * elapsed_ms / 60_000, view.issued))


def called_at_ms(view: View, place: int) -> float:
    """When `called_away` came to `place`, Unix milliseconds."""
    start_ms, called = _last_segment(view)
    return start_ms + max(0, place - called) * 60_000 / view.room.settings.rate_per_minute


def _last_segment(view: View) -> tuple[float, int]:
    """Where the line's last segment ended, and how far it had come; nobody was called before the opening."""
    if view.figures is None:
        return view.now_ms, 0
    opens_at = view.room.settings.opens_at
    opened_ms = 0.0 if opens_at is None else opens_at.timestamp() * 1000
    return max(view.figures.valid_until_ms, opened_ms), view.figures.called_at(view.figures.valid_until_ms)
