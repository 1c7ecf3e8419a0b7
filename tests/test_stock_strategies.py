"""Every strategy keeps the promises of a reserve, or is shown to break the one that it is known to break."""

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import asyncpg
import orjson
import pytest

from chassis.database import Pool, open_pool
from chassis.settings import Settings
from counters.ids import sku_of_hold
from counters.rules import Done, HoldName, Refused
from counters.store import Stock
from fairgate.cli.bench import stock_tables
from loadtest.strategies.choose import STRATEGIES, open_strategy
from loadtest.strategies.proof import Proof, read_proof
from loadtest.strategies.strategy import COMPARED, Strategy, StrategyName, TrialSku, buyer_of, reservation, trial_sku
from tests.line_world import until
from tests.servers import Servers
from tests.stock_world import codes

SAFE = [name for name in STRATEGIES if name != "naive"]
TOTAL = 20
VERSIONS = Path(__file__).parent.parent / "fairgate" / "migrations" / "versions"


class Trial:
    """One strategy with one SKU on sale."""

    def __init__(self, pool: Pool, strategy: Strategy, sku: TrialSku) -> None:
        self.pool = pool
        self.strategy = strategy
        self.sku = sku

    async def reserve(self, key: str, quantity: int = 1) -> Done | Refused:
        """A reserve under a key that no other test's SKU has."""
        return await self.strategy.reserve(trial_sku(self.sku.id, self.sku.name, quantity), self.key(key))

    def key(self, word: str) -> str:
        return f"{word} {self.sku.name}"

    async def release(self, outcome: Done | Refused, key: str) -> Done | Refused:
        """Give back what `key` got."""
        assert isinstance(outcome, Done), outcome
        document = orjson.loads(outcome.document)
        hold_id = UUID(document["id"])
        hold = HoldName(hold_id, sku_of_hold(hold_id))
        return await self.strategy.release(hold, document["fence"], buyer_of(self.key(key)))

    async def proof(self) -> Proof:
        return await read_proof(self.pool, self.strategy.schema, self.sku.id)


async def on_trial(pool: Pool, name: StrategyName, total: int = TOTAL, shards: int = 4) -> Trial:
    strategy = await open_strategy(name, pool, Stock(pool), stock_tables())
    sku = f"ticket-{secrets.token_hex(6)}"
    return Trial(pool, strategy, trial_sku(await strategy.lay_out(sku, total, shards), sku))


@pytest.fixture(scope="module")
def database(servers: Servers, template: str) -> str:
    """One database for all tests of this file, each with a SKU of its own: the comparisons' schemas are made once."""

    async def create() -> None:
        connection = await asyncpg.connect(servers.database_url)
        await connection.execute(f"CREATE DATABASE strategies TEMPLATE {template} STRATEGY FILE_COPY")
        await connection.close()

    asyncio.run(create())
    return servers.database_url.replace("@/postgres?", "@/strategies?")


@pytest.fixture
async def pool(database: str, servers: Servers) -> AsyncIterator[Pool]:
    settings = Settings(database_url=database, redis_url=servers.redis_url, master_key=servers.master_key)
    opened = await open_pool(settings)
    try:
        yield opened
    finally:
        opened.terminate()


@contextlib.asynccontextmanager
async def row_locked(trial: Trial) -> AsyncIterator[None]:
    """Somebody holds the SKU's only row, and leaves it as it was."""
    statement = trial.strategy.schema.put_into("SELECT 1 FROM stock.sub_counters WHERE sku_id = $1 FOR NO KEY UPDATE")
    async with trial.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(statement, trial.sku.id)
        yield
        await transaction.rollback()


def slot(trial: Trial, key: str) -> UUID:
    """What a key's record is found by."""
    return reservation(trial.sku, trial.key(key), batched=False).keyed.slot


async def waiting(trial: Trial, many: int) -> bool:
    """Whether so many statements wait for a lock."""
    waiters = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return bool(await trial.pool.fetchval(waiters) >= many)


@pytest.fixture(params=STRATEGIES)
async def trial(pool: Pool, request: pytest.FixtureRequest) -> AsyncIterator[Trial]:
    yield await on_trial(pool, request.param)


async def test_a_crowd_gets_no_more_than_there_is_or_the_proof_counts_what_was_oversold(trial: Trial) -> None:
    outcomes = await asyncio.gather(*(trial.reserve(f"key-{n}") for n in range(3 * TOTAL)))
    granted = codes(outcomes).count("done")
    proof = await trial.proof()
    assert proof.holds == proof.moves == proof.keys == proof.units == granted
    assert proof.oversold == granted - TOTAL
    assert bool(proof.drift) == bool(proof.oversold)
    if trial.strategy.name != "naive":
        assert proof.faults(granted) == []
        assert Counter(codes(outcomes)) == {"done": TOTAL, "sold-out": 2 * TOTAL}


async def test_a_key_has_one_effect_and_its_repeats_hear_the_first_answer(trial: Trial) -> None:
    outcomes = await asyncio.gather(*(trial.reserve("same") for _ in range(5)))
    documents = {outcome.document for outcome in outcomes if isinstance(outcome, Done)}
    assert sorted(codes(outcomes)) == ["done", *["replayed"] * 4]
    assert len(documents) == 1
    assert codes([await trial.reserve("same", quantity=2)]) == ["key-reused"]
    assert (await trial.proof()).faults(1) == []


async def test_a_repeat_after_sell_out_still_finds_its_hold(trial: Trial) -> None:
    for number in range(TOTAL):
        await trial.reserve(f"key-{number}")
    assert codes([await trial.reserve("late"), await trial.reserve("key-0")]) == ["sold-out", "replayed"]


async def test_units_given_back_can_be_reserved_again(trial: Trial) -> None:
    first = await trial.reserve("first", TOTAL)
    assert codes([await trial.reserve("second", TOTAL)]) == ["sold-out"]
    assert codes([await trial.release(first, "first")]) == ["done"]
    assert codes([await trial.reserve("second", TOTAL)]) == ["done"]
    proof = await trial.proof()
    assert (proof.units, proof.oversold, proof.drift) == (TOTAL, 0, ())


@pytest.mark.parametrize("name", [name for name in SAFE if name != "skip-locked"])
async def test_nobody_is_refused_while_enough_is_left_in_whatever_rows(pool: Pool, name: StrategyName) -> None:
    trial = await on_trial(pool, name, total=10, shards=4)
    quantities = (3, 2, 1, 2, 1, 1)
    outcomes = await asyncio.gather(*(trial.reserve(f"key-{place}", units) for place, units in enumerate(quantities)))
    assert codes(outcomes) == ["done"] * len(quantities)
    assert (await trial.proof()).faults(len(quantities)) == []


async def test_naive_sells_the_last_unit_twice_and_the_audit_shows_it(pool: Pool) -> None:
    trial = await on_trial(pool, "naive", total=1)
    async with row_locked(trial):
        reserves = [asyncio.create_task(trial.reserve(key)) for key in ("ann", "bob")]
        await until(lambda: waiting(trial, 2), "both have read the counter and wait to write it")
    assert codes(await asyncio.gather(*reserves)) == ["done", "done"]
    proof = await trial.proof()
    assert proof.oversold == 1
    assert any("held against its holds" in fault for fault in proof.drift)


async def test_skip_locked_calls_a_unit_sold_out_that_was_only_looked_at(pool: Pool) -> None:
    trial = await on_trial(pool, "skip-locked", total=1)
    async with row_locked(trial):
        assert codes([await trial.reserve("ann")]) == ["sold-out"]
    assert codes([await trial.reserve("ann")]) == ["done"]


@pytest.mark.parametrize("name", SAFE)
async def test_all_others_sell_the_last_unit_once(pool: Pool, name: StrategyName) -> None:
    trial = await on_trial(pool, name, total=1, shards=1)
    async with row_locked(trial):
        reserves = [asyncio.create_task(trial.reserve(key)) for key in ("ann", "bob")]
        if name != "skip-locked":
            # Both wait, but those of one lane wait as one statement.
            await until(lambda: waiting(trial, 1), "they wait for the row")
    outcomes = await asyncio.gather(*reserves)
    assert codes(outcomes).count("done") <= 1
    assert (await trial.proof()).faults(codes(outcomes).count("done")) == []


async def test_comparisons_leave_the_real_stock_alone(pool: Pool) -> None:
    for name in COMPARED:
        trial = await on_trial(pool, name)
        assert codes([await trial.reserve("key")]) == ["done"]
        assert await Stock(pool).levels([trial.sku.name]) == []
        assert await pool.fetchval("SELECT count(*) FROM stock.idempotency WHERE slot = $1", slot(trial, "key")) == 0


def test_comparisons_have_every_table_change_that_the_stock_has() -> None:
    touching = [file.read_text() for file in sorted(VERSIONS.glob("*.sql")) if "TABLE stock." in file.read_text()]
    assert list(stock_tables()) == touching


async def test_comparisons_loosen_no_constraint(pool: Pool) -> None:
    await on_trial(pool, "naive")
    named = """
        SELECT schema.nspname AS place, array_agg(rule.conname || ' ' ||
               replace(pg_get_constraintdef(rule.oid), schema.nspname || '.', '') ORDER BY rule.conrelid::regclass::text, rule.conname)
          FROM pg_constraint AS rule JOIN pg_namespace AS schema ON schema.oid = rule.connamespace
         WHERE schema.nspname IN ('stock', 'compare_naive') GROUP BY 1
    """
    rules = {row["place"]: sorted(row["array_agg"]) for row in await pool.fetch(named)}
    assert rules["compare_naive"] == rules["stock"]
