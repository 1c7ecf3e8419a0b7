"""Who entered a draw: brought from Redis to Postgres as they come, and back after a loss of Redis.

Postgres has an entry before the line's progress counts it as known, so a lost Redis leaves a gap only where something
may truly be lost. Only the leader moves entries; each move is safe to repeat.
"""

import asyncpg

from admission.book import View
from admission.line import ENTRANT_BYTES, keys
from admission.redis_bond import LineAway, RedisBond
from admission.tickets import client_digest
from chassis.database import Pool, read_text

BATCH_ENTRIES = 5_000
# What one step of one room may move, so that other rooms' steps are not kept waiting, nor the lease lost.
STEP_BATCHES_MAX = 10
RECOVERY_BATCHES_MAX = 30


class Entries:
    """Moves entries between the two stores."""

    def __init__(self, pool: Pool, bond: RedisBond) -> None:
        self._pool = pool
        self._bond = bond

    async def keep(self, view: View, generation: str, term: int) -> int | None:
        """Bring issued entries into Postgres; None when all are there now, else the last of those that are.

        Raises LineAway.
        """
        assert view.handle is not None
        names = keys(view.room.name, view.room.epoch, "line", "unsaved_entries")
        saved, last = 0, 0
        for _ in range(STEP_BATCHES_MAX):
            outcome, *unsaved = await self._bond.run(
                "drain", view.handle.redis_identity, names, (generation, str(term), str(saved), str(BATCH_ENTRIES))
            )
            if outcome == "term":
                raise LineAway("another leader is at work")
            if not unsaved:
                return None
            last = await self._save(view, unsaved)
            saved = len(unsaved)
        return last

    async def salvage(self, view: View, term: int) -> bool:
        """Before a new generation: keep what this Redis still has of entries, and tell it who entered; whether all is done.

        A part is done at each call. Once the entries are closed nobody can enter twice. Raises LineAway, also when another
        Redis has come meanwhile.
        """
        if view.ordered_by != "draw" or (view.draw is not None and view.draw.entries_closed_at is not None):
            return True
        names = keys(view.room.name, view.room.epoch, "line", "unsaved_entries", "remembered")
        identity = self._bond.identity_of(view.room.name)
        at = known = 0
        while True:
            _, known, *unsaved = await self._bond.run("salvage_entries", identity, names, (str(at), str(BATCH_ENTRIES)))
            if not unsaved:
                break
            await self._save(view, unsaved)
            at += len(unsaved)
        last = await self._pool.fetchval(
            read_text("admission", "sql", "last_kept_entry.sql"), view.room.name, view.room.epoch
        )
        for _ in range(RECOVERY_BATCHES_MAX):
            if known >= last:
                break
            rows = await self.read(view, known + 1, known + BATCH_ENTRIES)
            known += BATCH_ENTRIES
            await self._remember(view, identity, term, rows, str(known))
        if identity != self._bond.identity_of(view.room.name):
            raise LineAway("another Redis has come")
        return bool(known >= last)

    async def remember_one(self, view: View, entry: int, client_id: bytes) -> None:
        """Tell Redis of an entry that was restored from its ticket. Raises LineAway."""
        assert view.handle is not None
        await self._bond.run(
            "remember",
            view.handle.redis_identity,
            keys(view.room.name, view.room.epoch, "line", "entrants", "remembered"),
            ("", "", client_id[:ENTRANT_BYTES], str(entry)),
        )

    async def read(self, view: View, first: int, last: int) -> list[asyncpg.Record]:
        """The entries from `first` to `last` that Postgres holds."""
        rows: list[asyncpg.Record] = await self._pool.fetch(
            read_text("admission", "sql", "read_entries.sql"), view.room.name, view.room.epoch, first, last
        )
        return rows

    async def _save(self, view: View, unsaved: list[str]) -> int:
        """Keep entries from join.lua's 'entry client_id'; the last of them."""
        issued = [item.split(" ") for item in unsaved]
        entries = [int(entry) for entry, _ in issued]
        await self._pool.execute(
            read_text("admission", "sql", "keep_entries.sql"),
            view.room.name,
            view.room.epoch,
            entries,
            [client_digest(client_id) for _, client_id in issued],
        )
        return entries[-1]

    async def _remember(
        self, view: View, identity: str | None, term: int, rows: list[asyncpg.Record], through: str
    ) -> None:
        values: list[str | bytes] = [str(term), through]
        for row in rows:
            values += [row["client_id"][:ENTRANT_BYTES], str(row["entry"])]
        answer = await self._bond.run(
            "remember",
            identity,
            keys(view.room.name, view.room.epoch, "line", "entrants", "remembered"),
            values,
        )
        if answer[0] != "remembered":
            raise LineAway("another leader is at work")
