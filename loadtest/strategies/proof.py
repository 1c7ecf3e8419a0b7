"""What stands written after a strategy has worked: whether its books balance, and whether it granted what callers were told."""

from dataclasses import dataclass

from chassis.database import Pool
from loadtest.strategies.schemas import Schema, strategy_sql

# After a long run an audit reads millions of rows: the limit of a worker's statements is not for it.
NO_LIMIT = "SET LOCAL statement_timeout = 0"
AUDIT_SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True)
class Proof:
    """One SKU's rows. `oversold`: units in live and sold holds beyond the stock; `drift`: what the audit found, in words."""

    holds: int
    moves: int
    keys: int
    units: int
    oversold: int
    drift: tuple[str, ...]

    def faults(self, granted: int) -> list[str]:
        """Where the rows are not what `granted` holds, as callers were told of them, should have left."""
        written = (("holds", self.holds), ("moves in the ledger", self.moves), ("records of keys", self.keys))
        wrong = [f"{count:,} {what} for {granted:,} holds granted" for what, count in written if count != granted]
        return wrong + ([f"oversold by {self.oversold:,}"] if self.oversold else []) + list(self.drift)


async def read_proof(pool: Pool, schema: Schema, sku_id: int) -> Proof:
    """Count and audit one SKU. Nothing may be under way on it."""
    async with pool.acquire() as connection, connection.transaction(readonly=True):
        await connection.execute(NO_LIMIT)
        counted = await connection.fetchrow(
            schema.put_into(strategy_sql("count_written.sql")), sku_id, timeout=AUDIT_SECONDS_MAX
        )
    assert counted is not None, "counts are one row"
    return Proof(**counted, drift=await read_drift(pool, schema, sku_id))


async def read_drift(pool: Pool, schema: Schema, sku_id: int) -> tuple[str, ...]:
    """What an audit of one SKU finds, in words; it reads one snapshot, so the SKU may be under load."""
    statement = f"SELECT * FROM {schema.verbs}.audit($1)"  # noqa: S608 - our own names only
    async with pool.acquire() as connection, connection.transaction(readonly=True):
        await connection.execute(NO_LIMIT)
        faults = await connection.fetch(statement, sku_id, timeout=AUDIT_SECONDS_MAX)
    return tuple(f"{row['place']}: {row['what']}: {row['recorded']}, should be {row['expected']}" for row in faults)
