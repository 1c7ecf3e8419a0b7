"""The shape that lets the stock be distributed by SKU later (DESIGN, growing past one machine), read from the catalogue."""

import re

import pytest

from chassis.database import Pool
from counters.functions import verbs_schema

REFERENCE_TABLES = {"skus"}
UNIQUE_WITHOUT_SKU = {"a_key_has_one_effect"}
HOT_VERBS = {"reserve", "reserve_tail", "start_payment", "confirm", "release", "extend", "resolve", "read_hold"}
RULE = re.compile(r"[a-z]+(_[a-z0-9]+)*")


@pytest.fixture
async def indexes(pool: Pool) -> list[tuple[str, str, list[str], bool]]:
    """(table, index, columns, primary) of each unique index."""
    rows = await pool.fetch(
        "SELECT c.relname, i.relname AS index, x.indisprimary,"
        " ARRAY (SELECT a.attname::text FROM unnest(x.indkey) WITH ORDINALITY AS k (number, place)"
        "        JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = k.number ORDER BY k.place) AS columns"
        " FROM pg_index AS x JOIN pg_class AS c ON c.oid = x.indrelid JOIN pg_class AS i ON i.oid = x.indexrelid"
        " JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'stock' AND x.indisunique"
    )
    return [(row["relname"], row["index"], row["columns"], row["indisprimary"]) for row in rows]


async def test_every_table_has_its_sku_in_its_primary_key(
    pool: Pool, indexes: list[tuple[str, str, list[str], bool]]
) -> None:
    tables = {
        row["tablename"] for row in await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'stock'")
    }
    primary = {table: columns for table, _, columns, is_primary in indexes if is_primary}
    assert primary.keys() == tables and tables > REFERENCE_TABLES
    assert {table for table, columns in primary.items() if columns[0] != "sku_id"} == REFERENCE_TABLES


async def test_every_unique_index_has_the_sku_but_for_the_one_that_says_why(
    indexes: list[tuple[str, str, list[str], bool]],
) -> None:
    without = {
        index for table, index, columns, _ in indexes if table not in REFERENCE_TABLES and "sku_id" not in columns
    }
    assert without == UNIQUE_WITHOUT_SKU


async def test_foreign_keys_stay_within_a_sku_or_point_to_a_reference_table(pool: Pool) -> None:
    rows = await pool.fetch(
        "SELECT conname, target.relname AS target,"
        " (SELECT attname FROM pg_attribute WHERE attrelid = conrelid AND attnum = conkey[1]) AS near,"
        " (SELECT attname FROM pg_attribute WHERE attrelid = confrelid AND attnum = confkey[1]) AS far"
        " FROM pg_constraint JOIN pg_class AS target ON target.oid = confrelid"
        " WHERE contype = 'f' AND connamespace = 'stock'::regnamespace"
    )
    assert rows
    for row in rows:
        assert row["target"] in REFERENCE_TABLES or (row["near"], row["far"]) == ("sku_id", "sku_id"), row["conname"]


async def test_hot_functions_take_the_sku_first(pool: Pool) -> None:
    rows = await pool.fetch(
        "SELECT proname, proargnames[1] AS first, proargtypes[0]::regtype::text AS type FROM pg_proc"
        " WHERE pronamespace = $1::regnamespace AND proname = ANY ($2)",
        verbs_schema(),
        list(HOT_VERBS),
    )
    assert {row["proname"] for row in rows} == HOT_VERBS
    assert {(row["first"], row["type"]) for row in rows} == {("p_sku", "integer")}


async def test_no_sequence_stands_free_and_every_rule_has_a_name_of_its_own(pool: Pool) -> None:
    free = await pool.fetchval(
        "SELECT count(*) FROM pg_class AS s WHERE s.relkind = 'S' AND s.relnamespace = 'stock'::regnamespace"
        " AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE objid = s.oid AND deptype = 'i')"
    )
    assert free == 0
    names = await pool.fetch(
        "SELECT conname, conrelid::regclass::text AS place, contype FROM pg_constraint"
        " WHERE connamespace = 'stock'::regnamespace AND contype IN ('c', 'f', 'u')"
    )
    for row in names:
        made_up = re.fullmatch(rf"{row['place'].removeprefix('stock.')}_.*_(check|fkey|key)\d*", row["conname"])
        assert RULE.fullmatch(row["conname"]) and not made_up, row["conname"]
