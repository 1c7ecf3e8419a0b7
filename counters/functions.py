"""Installs the stock's verbs into Postgres, under a schema that carries their version.

Old and new workers run side by side on one database: each calls the schema of the files that it carries.
"""

import hashlib
from functools import cache
from importlib.resources import files

from chassis.database import Connection, read_text

WRITTEN_SCHEMA = "stock_verbs"
INSTALL_LOCK = 0x73746F636B  # "stock"


@cache
def verb_files() -> tuple[str, ...]:
    """The names of the SQL files, in the order in which they are installed."""
    return tuple(
        sorted(file.name for file in files("counters").joinpath("sql").iterdir() if file.name.endswith(".sql"))
    )


@cache
def verbs_schema() -> str:
    """The schema that holds this version's functions: stock_verbs_ and eight hex digits over all files."""
    text = "\0".join(read_text("counters", "sql", name) for name in verb_files())
    return f"{WRITTEN_SCHEMA}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


async def install_functions(connection: Connection) -> bool:
    """Create this version's functions. True when they were new; safe to repeat and from several processes at once."""
    schema = verbs_schema()
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", INSTALL_LOCK)
        if await connection.fetchval("SELECT to_regnamespace($1)", schema) is not None:
            return False
        await connection.execute(f"CREATE SCHEMA {schema}")
        # SQL functions are checked when they are created; they call each other across files.
        await connection.execute("SET LOCAL check_function_bodies = off")
        for name in verb_files():
            await connection.execute(read_text("counters", "sql", name).replace(WRITTEN_SCHEMA, schema))
    return True
