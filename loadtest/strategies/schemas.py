"""Where a strategy's stock lives: the real tables, or a schema of the comparison's own with the same tables and constraints.

Nothing is loosened for a comparison, and no comparison touches the real stock.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chassis.database import Connection, read_text
from counters.functions import WRITTEN_SCHEMA, verb_files, verbs_schema

_TABLES = re.compile(r"\bstock(?=[.;])")
_VERBS = re.compile(rf"\b{WRITTEN_SCHEMA}\b")


@dataclass(frozen=True, slots=True)
class Schema:
    """The names of a schema of tables and of the schema of the functions that move them."""

    tables: str
    verbs: str

    def put_into(self, text: str) -> str:
        """SQL written for `stock` and `stock_verbs`, for these schemas."""
        return _VERBS.sub(self.verbs, _TABLES.sub(self.tables, text))


def real_schema() -> Schema:
    """The product's own tables, with this version's verbs."""
    return Schema("stock", verbs_schema())


def comparison_schema(strategy: str) -> Schema:
    """Where the comparison strategy of that name lives."""
    name = f"compare_{strategy.replace('-', '_')}"
    return Schema(name, f"{name}_verbs")


async def install(connection: Connection, schema: Schema, tables: Sequence[str], files: Sequence[str]) -> None:
    """Make the schema: `tables` are the migrations' scripts for the stock, `files` the comparison's own functions.

    Does nothing where it exists.
    """
    async with connection.transaction():
        if await connection.fetchval("SELECT to_regnamespace($1)", schema.tables) is not None:
            return
        await connection.execute(f"CREATE SCHEMA {schema.verbs}")
        # SQL functions are checked when they are created; they call each other across files.
        await connection.execute("SET LOCAL check_function_bodies = off")
        verbs = [read_text("counters", "sql", name) for name in verb_files()]
        for text in (*tables, *verbs, *(strategy_sql(name) for name in files)):
            await connection.execute(schema.put_into(text))


def strategy_sql(name: str) -> str:
    """The text of a file of the strategies' own."""
    return read_text("loadtest.strategies", "sql", name)
