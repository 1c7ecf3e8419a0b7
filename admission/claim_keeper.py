"""Keeps claims in Postgres before their passes are handed out, so that no loss of Redis forgets who was let in.

While Postgres is away too, claims wait in this worker's memory, in bounds, and are appended when it is back.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from admission.batches import Batches
from admission.line import Handle
from admission.passes import pass_id
from admission.redis_bond import LineAway
from chassis.database import STORE_AWAY, Pool, read_text
from chassis.problems import busy

TURN = 1  # a ticket is called once
KEEP_SECONDS_MAX = 1.0
OWED_MAX = 50_000
APPENDED_MAX = 1_000
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Claim:
    """Who was let in, and from when to when (Unix seconds). `ended`: the ticket was used before and its pass is over."""

    ticket_id: str
    place: int
    issued_at: int
    expires_at: int
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Occasion:
    """Under what a claim was granted: a room's generation, by Redis or while it was `away`."""

    handle: Handle
    away: bool


class ClaimKeeper:
    """The claims that this worker grants. `postgres_away` while some wait in its memory."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._batches: Batches[Occasion, Claim, Claim] = Batches(self._keep)
        self._owed: list[tuple[Occasion, Claim]] = []

    @property
    def postgres_away(self) -> bool:
        """Whether Postgres did not take a claim and has not come back since."""
        return bool(self._owed)

    async def keep(self, handle: Handle, claim: Claim, *, away: bool = False) -> Claim:
        """The claim as Postgres has it: what stood there before counts, a later expiry from Redis too.

        Raises LineAway where a new generation has begun, which may know nothing of this claim: nobody must be let in by it.
        Raises Problem busy when too many wait for Postgres.
        """
        occasion = Occasion(handle, away)
        if self._owed:
            self._owe(occasion, [claim])
            return claim
        return await self._batches.ask(occasion, claim)

    async def keep_all(self, handle: Handle, claims: Sequence[Claim]) -> None:
        """Keep many claims that Redis has lengthened, as `keep` does."""
        if self._owed:
            self._owe(Occasion(handle, away=False), claims)
        elif claims:
            await self._keep(Occasion(handle, away=False), claims)

    async def run_once(self) -> int:
        """Append what waits for Postgres; how many were appended. The leader enters them into Redis."""
        appended = 0
        while owed := self._owed[:APPENDED_MAX]:
            for occasion in dict.fromkeys(occasion for occasion, _ in owed):
                await self._append(occasion, [claim for of, claim in owed if of == occasion], fenced=False)
            del self._owed[: len(owed)]
            appended += len(owed)
        if appended:
            log.info("claims appended that had waited for Postgres", claims=appended)
        return appended

    async def _keep(self, occasion: Occasion, claims: Sequence[Claim]) -> Sequence[Claim]:
        try:
            async with asyncio.timeout(KEEP_SECONDS_MAX):
                kept = await self._append(occasion, claims, fenced=True)
        except STORE_AWAY:
            self._owe(occasion, claims)
            return claims
        if not kept:
            raise LineAway("it is being restored")
        return [kept[claim.ticket_id] for claim in claims]

    def _owe(self, occasion: Occasion, claims: Sequence[Claim]) -> None:
        if len(self._owed) + len(claims) > OWED_MAX:
            raise busy("Nobody more can be let in while the database is away. Your place is safe.")
        self._owed += [(occasion, claim) for claim in claims]

    async def _append(self, occasion: Occasion, claims: Sequence[Claim], *, fenced: bool) -> Mapping[str, Claim]:
        """What Postgres has of each ticket now; nothing where the generation has passed on and the append is `fenced`."""
        handle = occasion.handle
        of_ticket = {claim.ticket_id: claim for claim in claims}
        rows = await self._pool.fetch(
            read_text("admission", "sql", "keep_claims.sql"),
            handle.room,
            handle.epoch,
            handle.generation if fenced else None,
            occasion.away,
            list(of_ticket),
            [claim.place for claim in of_ticket.values()],
            [pass_id(ticket_id, TURN) for ticket_id in of_ticket],
            [claim.issued_at for claim in of_ticket.values()],
            [claim.expires_at for claim in of_ticket.values()],
        )
        return {
            row["ticket_id"]: replace(
                of_ticket[row["ticket_id"]],
                issued_at=row["issued_at"],
                expires_at=row["expires_at"],
                ended=row["ended"],
            )
            for row in rows
        }
