"""Leases: at most one process leads a role at a time, judged by the database's clock and told apart by a term."""

from chassis.database import Pool, read_text

LEASE_SECONDS = 2.0


class Lease:
    """A bid for one role. Whoever holds it renews each half second; two seconds of silence pass it on."""

    def __init__(self, pool: Pool, role: str, holder: str) -> None:
        self._pool = pool
        self.role = role
        self.holder = holder

    async def hold(self) -> int | None:
        """Take or renew the lease: its term while we lead, None while somebody else does.

        What a leader writes must name the term, so that one that slept past its lease does nothing when it wakes.
        """
        term: int | None = await self._pool.fetchval(
            read_text("chassis", "sql", "hold_lease.sql"), self.role, self.holder, LEASE_SECONDS
        )
        return term

    async def release(self) -> None:
        """Give the lease back at once; without effect when it is not ours."""
        await self._pool.execute(read_text("chassis", "sql", "release_lease.sql"), self.role, self.holder)
