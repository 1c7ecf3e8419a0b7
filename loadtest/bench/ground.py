"""The databases that the engine is measured on: one empty, and where asked one that remembers millions of holds."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit, urlunsplit

import asyncpg

from chassis.database import Pool, open_pool, read_text
from chassis.settings import Settings

CONNECTIONS = 24
HISTORY_DATABASE = "bench_history"
FILL_ROWS = 100_000  # in one statement

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ground:
    """A durable Postgres for the bench alone: its settings, how a database there gets our schema, and the stock's tables."""

    settings: Settings
    migrate: Callable[[str], Awaitable[object]]
    tables: tuple[str, ...]

    @contextlib.asynccontextmanager
    async def pool(self, *, history: bool = False, commit_ms: int = 0) -> AsyncIterator[Pool]:
        """A pool as a worker's. Each commit takes `commit_ms` longer while its locks are held, in this pool's sessions only."""
        url = self._history_url() if history else self.settings.database_url
        if commit_ms:
            url = _with_query(url, {"commit_delay": str(commit_ms * 1000), "commit_siblings": "0"})
        pool = await open_pool(self.settings.model_copy(update={"database_url": url}), connections=CONNECTIONS)
        try:
            yield pool
        finally:
            await pool.close()

    async def fill_history(self, rows: int, report: Report) -> None:
        """Make the database with `rows` past holds, each with its part, its key's record and its two moves in the ledger."""
        connection = await asyncpg.connect(self.settings.database_url)
        try:
            await connection.execute(f"CREATE DATABASE {HISTORY_DATABASE}")
        finally:
            await connection.close()
        await self.migrate(self._history_url())
        connection = await asyncpg.connect(self._history_url())
        try:
            sku = await connection.fetchval(bench_sql("history_sku.sql"))
            for filled in range(0, rows, FILL_ROWS):
                report(f"filling the history: {filled:,} of {rows:,} holds")
                await connection.execute(bench_sql("fill_history.sql"), sku, min(FILL_ROWS, rows - filled))
            report("filling the history: vacuum and analyze")
            await connection.execute("VACUUM (ANALYZE)")
        finally:
            await connection.close()

    def _history_url(self) -> str:
        parts = urlsplit(self.settings.database_url)
        return urlunsplit(parts._replace(path=f"/{HISTORY_DATABASE}"))


class Pools:
    """The pools of one run, each opened once and closed with `block`: every variant finds warm connections."""

    def __init__(self, ground: Ground, block: contextlib.AsyncExitStack) -> None:
        self._ground = ground
        self._block = block
        self._pools: dict[tuple[bool, int], Pool] = {}

    async def get(self, *, history: bool = False, commit_ms: int = 0) -> Pool:
        """The pool for these, as `Ground.pool` says."""
        kind = (history, commit_ms)
        if kind not in self._pools:
            opened = self._ground.pool(history=history, commit_ms=commit_ms)
            self._pools[kind] = await self._block.enter_async_context(opened)
        return self._pools[kind]


def bench_sql(name: str) -> str:
    """The text of a file of the bench's own."""
    return read_text("loadtest.bench", "sql", name)


def _with_query(url: str, settings: dict[str, str]) -> str:
    """The address with further settings of each session: asyncpg hands on what it does not know itself."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, urlencode(settings))))))
