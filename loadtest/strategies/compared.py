"""The strategies for comparison only: known ways to decrement a counter, each on tables of its own, never for real sales.

Only how units are taken differs (sql/take_….sql); the hold, its part, its ledger row and its key's record are the same.
"""

from collections.abc import Sequence

import msgspec

from chassis.database import Pool
from counters.ids import new_hold_id, new_operation_id
from counters.rules import Done, HoldName, Refusal, Refused
from loadtest.strategies.schemas import Schema, comparison_schema, install
from loadtest.strategies.strategy import StrategyName, TrialSku, reservation

SHARED_FILES = ("lay_out.sql", "reserve_one.sql", "release_one.sql")


class Compared:
    """One comparison strategy. `install` makes its schema."""

    def __init__(self, pool: Pool, name: StrategyName) -> None:
        self.schema: Schema = comparison_schema(name)
        self._pool = pool
        self._name = name

    @property
    def name(self) -> StrategyName:
        return self._name

    async def install(self, tables: Sequence[str]) -> None:
        """Make the schema where it is missing; `tables` are the migrations' scripts for the stock."""
        async with self._pool.acquire() as connection:
            await install(connection, self.schema, tables, (*SHARED_FILES, f"take_{self._name.replace('-', '_')}.sql"))

    async def lay_out(self, sku: str, total: int, shards: int) -> int:
        rows = total if self._name == "skip-locked" else 1
        number: int = await self._pool.fetchval(self._call("lay_out", 3), sku, total, rows)
        return number

    async def reserve(self, sku: TrialSku, key: str) -> Done | Refused:
        wanted = reservation(sku, key, batched=False)
        return await self._decide(
            "reserve_one", sku.id, new_hold_id(sku.id), wanted.keyed.slot, wanted.keyed.fingerprint,
            sku.quantity, wanted.lines_json, wanted.actor, new_operation_id(),
        )  # fmt: skip

    async def release(self, hold: HoldName, fence: int, caller: str) -> Done | Refused:
        return await self._decide("release_one", hold.sku_id, hold.id, fence, caller)

    async def _decide(self, verb: str, *arguments: object) -> Done | Refused:
        row = await self._pool.fetchrow(self._call(verb, len(arguments)), *arguments)
        assert row is not None, f"{verb} answers one row"
        if row["outcome"] in ("granted", "done", "replayed"):
            return Done(row["answer"], replayed=row["outcome"] == "replayed")
        return Refused(msgspec.convert(row["outcome"], Refusal))

    def _call(self, verb: str, arguments: int) -> str:
        places = ", ".join(f"${place + 1}" for place in range(arguments))
        return f"SELECT * FROM {self.schema.verbs}.{verb}({places})"  # noqa: S608 - our own names only
