"""Entries that a lost Redis has forgotten and whose tickets turn up: back into the draw before its entries close.

After the close nothing of a draw changes: such a ticket keeps the place it has, and the proof lists it as restored.
"""

from contextlib import suppress

from admission.book import View
from admission.entries import Entries
from admission.places import in_gap
from admission.redis_bond import LineAway
from admission.tickets import Ticket, client_digest
from chassis.database import STORE_AWAY, Pool, read_text

LISTED_MAX = 10_000


class Restorer:
    """Restores entries from the tickets that are shown."""

    def __init__(self, pool: Pool, entries: Entries) -> None:
        self._pool = pool
        self._entries = entries
        self._listed: dict[str, None] = {}

    async def restore(self, view: View, ticket: Ticket) -> None:
        """Keep the ticket's entry if it lies in a gap. What a store that is away prevents, the next showing does."""
        if ticket.kind != "entry" or view.ordered_by != "draw" or not in_gap(ticket.index, view.layout.entry_gaps):
            return
        if ticket.ticket_id in self._listed:
            return
        with suppress(LineAway, *STORE_AWAY):
            client_id = client_digest(ticket.entrant)
            if await self._in_time(view, ticket.index, client_id):
                await self._entries.remember_one(view, ticket.index, client_id)
                return
            if len(self._listed) >= LISTED_MAX:
                del self._listed[next(iter(self._listed))]
            self._listed[ticket.ticket_id] = None

    async def _in_time(self, view: View, entry: int, client_id: bytes) -> bool:
        """Split the entry's gap, or list it as late where the entries are closed; whether it was in time."""
        values = view.room.name, view.room.epoch
        async with self._pool.acquire() as connection, connection.transaction():
            closed = await connection.fetchval(read_text("admission", "sql", "lock_draw.sql"), *values)
            verb = "list_restored_entry.sql" if closed else "restore_entry.sql"
            await connection.execute(read_text("admission", "sql", verb), *values, entry, client_id)
        return not closed
