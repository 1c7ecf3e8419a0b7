"""The shape that lets the stock be distributed by SKU, read from the catalogue: keys, references, verbs, and names of rules."""

import asyncio
import os
import re
from datetime import UTC, datetime, timedelta

import asyncpg
import orjson
import pytest

from chassis.database import Connection, Pool, make_pool, read_text
from chassis.settings import Settings
from counters.api import sale_name
from counters.functions import verb_files, verbs_schema
from counters.lanes import LaneSettings
from counters.rules import Done, Line
from counters.store import Stock
from tests.stock_world import World, codes, held

# CI plans against a sale of a million holds; at a desk that would take a minute too long.
PAST = 1_000_000 if os.environ.get("FAIRGATE_TEST_ALL") == "1" else 20_000
REFERENCE_TABLE = "skus"  # small, copied to each node: what can be sold, under which rules
EXCEPTION = "a_key_has_one_effect"  # on one Postgres only: a key is unique whatever SKU it names
HOT_VERBS = (
    "reserve", "reserve_tail", "reserve_cart", "confirm", "confirm_part", "reacquire", "cancel", "release", "extend",
    "start_payment", "expire_due", "prune",
)  # fmt: skip

TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'stock'::regnamespace AND relkind IN ('r', 'p')"
UNIQUE_INDEXES = """
    SELECT index.relname AS name, owner.relname AS owner, pg_index.indisprimary AS is_primary,
           ARRAY (SELECT attname::text FROM pg_attribute
                   WHERE attrelid = owner.oid AND attnum = ANY (pg_index.indkey::int2[])) AS columns
      FROM pg_index
      JOIN pg_class AS index ON index.oid = pg_index.indexrelid
      JOIN pg_class AS owner ON owner.oid = pg_index.indrelid
     WHERE pg_index.indisunique AND owner.relnamespace = 'stock'::regnamespace AND owner.relname <> 'skus'"""
FOREIGN_KEYS = """
    SELECT conname AS name, confrelid::regclass::text AS target,
           ARRAY (SELECT attname::text FROM unnest(conkey, confkey) AS pair (here, there)
                    JOIN pg_attribute ON attrelid = conrelid AND attnum = pair.here
                   WHERE attname = 'sku_id' AND pair.there = (
                         SELECT attnum FROM pg_attribute AS far WHERE far.attrelid = confrelid AND far.attname = 'sku_id'))
           AS shared
      FROM pg_constraint WHERE contype = 'f' AND connamespace = 'stock'::regnamespace"""
CONSTRAINTS = """
    SELECT conname FROM pg_constraint
     WHERE connamespace = 'stock'::regnamespace AND contype IN ('c', 'f', 'p', 'u', 'x')"""
FIRST_ARGUMENTS = """
    SELECT proname AS verb, proargnames[1] AS argument, proargtypes[0]::regtype::text AS kind
      FROM pg_proc WHERE pronamespace = $1::text::regnamespace AND proname = ANY ($2)"""
FUNCTIONS = "SELECT count(*) FROM pg_proc WHERE pronamespace = $1::text::regnamespace"


@pytest.fixture
async def connection(pool: Pool) -> Connection:
    return await pool.acquire()


async def test_every_stock_table_has_its_sku_in_its_key_and_in_every_unique_index(connection: Connection) -> None:
    tables = {row["relname"] for row in await connection.fetch(TABLES)} - {REFERENCE_TABLE}
    indexes = await connection.fetch(UNIQUE_INDEXES)
    keyed = {index["owner"] for index in indexes if index["is_primary"]}
    assert tables == keyed, "a stock table without a primary key cannot be distributed"
    assert [index["name"] for index in indexes if "sku_id" not in index["columns"]] == [EXCEPTION]


async def test_foreign_keys_stay_within_a_sku_or_point_to_the_reference_table(connection: Connection) -> None:
    for key in await connection.fetch(FOREIGN_KEYS):
        assert key["target"] == f"stock.{REFERENCE_TABLE}" or key["shared"] == ["sku_id"], key["name"]


async def test_hot_verbs_take_the_sku_first(connection: Connection) -> None:
    rows = await connection.fetch(FIRST_ARGUMENTS, verbs_schema(), HOT_VERBS)
    assert {row["verb"]: (row["argument"], row["kind"]) for row in rows} == dict.fromkeys(
        HOT_VERBS, ("p_sku", "integer")
    )


async def test_every_rule_is_named_by_us(connection: Connection) -> None:
    """What the database names itself (_check, _check1, _key, _fkey) says nothing to whoever reads the refusal."""
    names = [row["conname"] for row in await connection.fetch(CONSTRAINTS)]
    assert names
    assert [name for name in names if re.search(r"_(check|key|fkey|excl)\d*$", name)] == []


async def test_every_file_opens_with_what_it_does_and_what_makes_it_safe(connection: Connection) -> None:
    functions = 0
    for name in verb_files():
        text = read_text("counters", "sql", name)
        head = " ".join(text.partition("CREATE OR REPLACE")[0].replace("--", "").split())
        assert re.search(r"Safe under races:|[Rr]eads only|never called from outside|nothing is moved here", head), name
        functions += text.count("CREATE OR REPLACE FUNCTION")
    assert await connection.fetchval(FUNCTIONS, verbs_schema()) == functions


@pytest.mark.timeout(600)
async def test_hot_verbs_read_no_table_from_end_to_end(settings: Settings) -> None:
    """The tables that grow with every hold are large in a real sale: each verb must find its rows by index."""
    async with make_pool(settings, connections=1) as pool:
        world = World(pool, Stock(pool, LaneSettings(lanes=1)))
        sku = await world.fungible(total=500, extensions_max=5, buyer_max=400)
        hall = await world.seated(rows=2, seats=5)
        await fill(settings.database_url, sku.id, hall.id)
        before = await rows_read_without_index(pool)

        buyers = [f"buyer of today {number}" for number in range(60)]
        reserved = await asyncio.gather(*(world.reserve(Line("ticket", 2), buyer=buyer) for buyer in buyers))
        many = [held(outcome) for outcome in reserved]
        kept, given_back, late, *others = many
        hall_cart = held(await world.reserve(Line("ticket", 2), Line("hall", seats=("A-1", "A-2")), buyer="ada"))
        await world.stock.extend(kept.name, kept.fence, "shop:box", 400)
        await world.stock.start_payment(kept.name, kept.fence, "shop:box", None)
        await world.stock.release(given_back.name, given_back.fence, "shop:box")
        sold = await asyncio.gather(*(world.confirm(hold) for hold in [kept, hall_cart, *others[:30]]))
        assert set(codes(sold)) == {"done"}
        sale = orjson.loads(sold[0].document)["id"] if isinstance(sold[0], Done) else ""
        assert codes([await world.stock.cancel(sale_name(sale), "shop:box", "a test")]) == ["done"]
        assert codes([await world.confirm(others[31], lines=(Line("ticket", 1),))]) == ["done"]
        await world.expire(late, *others[40:])
        assert codes([await world.confirm(late, reacquire=True)]) == ["done"]
        assert codes([await world.reserve(Line("ticket", 400), buyer="bob")]) == ["done"], "after due holds came back"
        assert codes([await world.reserve(Line("ticket", 400), buyer="cleo")]) == ["insufficient-stock"]
        await world.stock.expire_due()
        await world.stock.prune(sku.id, datetime.now(UTC) - timedelta(days=2), 100)
        await world.stock.levels(["ticket"])
        assert await rows_read_without_index(pool) == before


async def fill(database_url: str, sku_id: int, hall_id: int) -> None:
    """Let a long sale lie behind the SKU: PAST holds, each with all its rows."""
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("SET session_replication_role = replica")  # the rows are sound: no checks, no triggers
        await connection.execute(PAST_HOLDS, sku_id, PAST)
        for statement in (PAST_PARTS, PAST_KEYS, PAST_LEDGER, PAST_SALES):
            await connection.execute(statement, sku_id)
        await connection.execute(PAST_SEATS, hall_id)
        await connection.execute("ANALYZE")
    finally:
        await connection.close()


async def rows_read_without_index(pool: Pool) -> dict[str, int]:
    """Rows that sequential scans have read, by growing table. The pool has one connection, so its own counts are all."""
    await pool.execute("SELECT pg_stat_force_next_flush()")
    return {row["relname"]: row["seq_tup_read"] for row in await pool.fetch(SCANNED, GROWING_TABLES)}


GROWING_TABLES = ("holds", "hold_parts", "idempotency", "ledger", "sales", "seats")
SCANNED = """
    SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = 'stock' AND relname = ANY ($1) ORDER BY 1"""
PAST_HOLDS = """
    INSERT INTO stock.holds (sku_id, id, state, fence, expires_at, actor, lines, quantity, created_at, ended_at)
    SELECT $1, uuidv7(), 'sold', number, now(), 'shop:box', '[]', 1, now(), now() FROM generate_series(1, $2::integer) AS number"""
PAST_PARTS = """
    INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity, buyer)
    SELECT sku_id, id, 0, sku_id, 1, 'buyer ' || fence FROM stock.holds WHERE sku_id = $1"""
PAST_KEYS = """
    INSERT INTO stock.idempotency (sku_id, slot, fingerprint, answer, operation_id, hold_id)
    SELECT sku_id, uuidv7(), '', '{}', uuidv7(), id FROM stock.holds WHERE sku_id = $1"""
PAST_LEDGER = """
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, sold_delta, hold_id, actor)
    SELECT sku_id, uuidv7(), 'confirm', 0, 1, id, 'shop:box' FROM stock.holds WHERE sku_id = $1"""
PAST_SALES = """
    INSERT INTO stock.sales (sku_id, id, hold_id, sold_at)
    SELECT sku_id, uuidv7(), id, now() FROM stock.holds WHERE sku_id = $1"""
PAST_SEATS = """
    INSERT INTO stock.seats (sku_id, seat, section, row_name, number)
    SELECT $1, 'Z-' || number, 'circle', 'Z', number FROM generate_series(1, 20000) AS number"""
