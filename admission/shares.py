"""What share of each room's rate this worker may admit by itself while Redis is away, for the policy `last-rate`.

Shares stand in Postgres, sum up to no more than the rate, and hold for ten minutes: they outlast both stores. They are
renewed every few seconds while Redis is well, so that they follow how many workers there are.
"""

import time
from dataclasses import dataclass

from admission.book import Book
from chassis.database import Pool, read_text

SHARE_SECONDS = 590.0  # Postgres counts it for ten minutes: ours ends first


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a room's rate, until `ends_at` by this process's monotonic clock."""

    rate_per_minute: float
    ends_at: float


class Shares:
    """This worker's shares, by room."""

    def __init__(self, pool: Pool, book: Book, worker: str) -> None:
        self._pool = pool
        self._book = book
        self._worker = worker
        self._held: dict[str, Share] = {}

    def rate_per_minute(self, room: str) -> float | None:
        """The share held of a room's rate; None where there is none any more."""
        share = self._held.get(room)
        return None if share is None or share.ends_at <= time.monotonic() else share.rate_per_minute

    async def run_once(self) -> int:
        """Say that this worker lives, and take its shares of the rooms whose Redis is well; how many it holds of."""
        rooms = [
            name
            for name, view in self._book.views.items()
            if view.reachable and view.room.settings.away_policy == "last-rate"
        ]
        held = [self.rate_per_minute(name) or 0.0 for name in rooms]
        asked_at = time.monotonic()
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(read_text("admission", "sql", "lock_shares.sql"))
            await connection.execute(read_text("admission", "sql", "see_worker.sql"), self._worker)
            taken = await connection.fetch(read_text("admission", "sql", "take_share.sql"), self._worker, rooms, held)
        for row in taken:
            self._held[row["room"]] = Share(row["rate_per_minute"], asked_at + SHARE_SECONDS)
        return len(self._held)

    async def release(self) -> None:
        """Give the shares back, so that the other workers need not wait for their end."""
        self._held.clear()
        await self._pool.execute(read_text("admission", "sql", "leave_shares.sql"), self._worker)
