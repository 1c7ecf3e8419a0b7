"""Brings a database to the schema that this version works with: Alembic's order, plain SQL inside, safe to repeat.

Two processes may migrate at once: an advisory lock makes the second wait and find nothing left to do.
"""

from importlib.resources import as_file, files
from typing import Any

import asyncpg
from alembic import command, op
from alembic.config import Config
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from chassis.database import read_text
from counters.functions import install_functions

HEAD = "0003"
MIGRATION_LOCK = 0x66616972  # "fair"


async def migrate(database_url: str) -> bool:
    """Bring the database up to date. True when the schema changed, False when it was at HEAD already."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)
        changed = await _version(connection) != HEAD
        if changed:
            await _upgrade(database_url)
        await install_functions(connection)
    finally:
        await connection.close()
    return changed


def execute_file(name: str) -> None:
    """Run a whole SQL file of this migration, many statements in one message, inside Alembic's transaction."""
    script = read_text("fairgate.migrations", "versions", name)
    adapted: Any = op.get_bind().connection.dbapi_connection
    adapted.run_async(lambda connection: connection.execute(script))


async def _version(connection: "asyncpg.Connection[asyncpg.Record]") -> str | None:
    if await connection.fetchval("SELECT to_regclass('public.alembic_version')") is None:
        return None
    version: str | None = await connection.fetchval("SELECT version_num FROM public.alembic_version")
    return version


async def _upgrade(database_url: str) -> None:
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(database_url), poolclass=NullPool
    )
    async with engine.connect() as connection:
        await connection.run_sync(_run_alembic)
        await connection.commit()
    await engine.dispose()


def _run_alembic(connection: Connection) -> None:
    with as_file(files("fairgate.migrations")) as folder:
        config = Config()
        config.set_main_option("script_location", str(folder))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
