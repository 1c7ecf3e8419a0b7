"""Connections to Postgres with our time limits on them, and the SQL and Lua that travel inside the packages."""

import asyncio
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from chassis.problems import Problem, busy
from chassis.settings import Settings

# asyncpg's classes take parameters in their stubs only, so the aliases are strings.
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
PooledConnection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"

if TYPE_CHECKING:
    _AnyConnection = asyncpg.Connection[asyncpg.Record]
else:
    _AnyConnection = asyncpg.Connection

# What a broken or restarting Postgres raises; whoever meets one answers 503 or tries again, never 500.
STORE_AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that broke between two messages is used once more
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    ConnectionError,
    OSError,
    asyncio.TimeoutError,
)


class StatelessConnection(_AnyConnection):
    """A connection that keeps nothing between its users, so that there is nothing to reset: a round trip saved."""

    def get_reset_query(self) -> str:
        return ""


def make_pool(settings: Settings, *, connections: int | None = None) -> Pool:
    """A pool, still closed, whose statements, lock waits and idle transactions are bounded by `settings`.

    Enter it with `async with`. It connects lazily: a process starts, and says that it is not ready, while Postgres is
    away. Call this where the event loop runs.
    """
    return asyncpg.create_pool(
        settings.database_url,
        min_size=0,
        max_size=connections or settings.database_connections,
        timeout=5,
        command_timeout=settings.statement_timeout_seconds + 1,
        max_inactive_connection_lifetime=300,
        connection_class=StatelessConnection,
        server_settings={
            "application_name": "fairgate",
            "statement_timeout": _milliseconds(settings.statement_timeout_seconds),
            "lock_timeout": _milliseconds(settings.lock_timeout_seconds),
            "idle_in_transaction_session_timeout": _milliseconds(settings.statement_timeout_seconds),
            "timezone": "UTC",
        },
    )


async def open_pool(settings: Settings, *, connections: int | None = None) -> Pool:
    """A pool as from `make_pool`, open; whoever opens it closes it."""
    pool = make_pool(settings, connections=connections)
    await pool
    return pool


def store_away(error: BaseException) -> Problem:
    """The problem that tells a caller that Postgres cannot be reached."""
    return busy(f"The database cannot be reached now ({type(error).__name__}). Nothing was lost; try again shortly.")


@cache
def read_text(package: str, *path: str) -> str:
    """The text of a file that travels inside `package`: SQL, Lua, HTML."""
    return files(package).joinpath(*path).read_text(encoding="utf-8")


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
