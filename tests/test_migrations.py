"""A house that an earlier version built is brought up to date: what it sold stays sold, its keys keep their answers."""

from pathlib import Path

import asyncpg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from chassis.database import make_pool
from chassis.settings import Settings
from counters.rules import Done, Line
from fairgate.migrations.migrate import migrate
from tests.servers import Servers
from tests.stock_world import World, codes, reserve_key

FOLDER = Path(__file__).parent.parent / "fairgate" / "migrations"
OLD_SALE = """
    INSERT INTO stock.skus (name, title, kind, state, total, shards, hold_seconds, hold_seconds_max, extensions_max, payment_seconds_max)
    VALUES ('ticket', 'Ticket', 'fungible', 'on_sale', 10, 2, 300, 900, 1, 900);
    INSERT INTO stock.sub_counters (sku_id, shard, total, held) VALUES (1, 0, 5, 3), (1, 1, 5, 0);
    INSERT INTO stock.holds (sku_id, id, fence, expires_at, actor, lines, created_at)
    VALUES (1, '019a0000-0000-7000-8000-000000000001', 1, now() + interval '5 min', 'shop:box',
            '[{"sku":"ticket","quantity":2},{"sku":"ticket","quantity":1}]', now());
    INSERT INTO stock.hold_parts (sku_id, hold_id, shard, lead_sku_id, quantity)
    VALUES (1, '019a0000-0000-7000-8000-000000000001', 0, 1, 3);
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, total_delta, held_delta, hold_id, actor)
    VALUES (1, gen_random_uuid(), 'create', 0, 5, 0, NULL, 'operator:ann'), (1, gen_random_uuid(), 'create', 1, 5, 0, NULL, 'operator:ann'),
           (1, gen_random_uuid(), 'reserve', 0, 0, 3, '019a0000-0000-7000-8000-000000000001', 'shop:box')"""
OLD_KEY = """
    INSERT INTO stock.idempotency (sku_id, scope, key, fingerprint, answer, operation_id, hold_id)
    VALUES (1, $1, $2, $3, '{"id": "first"}', gen_random_uuid(), '019a0000-0000-7000-8000-000000000001')"""


@pytest.fixture
async def old_url(servers: Servers) -> str:
    """An empty database of its own."""
    connection = await asyncpg.connect(servers.database_url)
    await connection.execute("DROP DATABASE IF EXISTS old_house WITH (FORCE)")
    await connection.execute("CREATE DATABASE old_house")
    await connection.close()
    return servers.database_url.replace("@/postgres?", "@/old_house?")


async def test_a_running_sale_survives_the_upgrade(old_url: str, servers: Servers) -> None:
    await upgrade(old_url, "0001")
    connection = await asyncpg.connect(old_url)
    await connection.execute(OLD_SALE)
    keyed = reserve_key(Line("ticket", 2), Line("ticket", 1), key="of old")
    await connection.execute(OLD_KEY, keyed.scope, keyed.key, keyed.fingerprint)
    await connection.close()

    assert await migrate(old_url)
    assert not await migrate(old_url)

    settings = Settings(database_url=old_url, redis_url=servers.redis_url, master_key=servers.master_key)
    async with make_pool(settings) as pool:
        world = World(pool)
        again = await world.reserve(Line("ticket", 2), Line("ticket", 1), key="of old")
        assert again == Done('{"id": "first"}', replayed=True)
        assert codes([await world.reserve(Line("ticket", 7)), await world.reserve(Line("ticket", 1))]) == [
            "done",
            "sold-out",
        ]
        assert await pool.fetchval("SELECT quantity FROM stock.holds ORDER BY created_at LIMIT 1") == 3
        assert await world.faults() == []


async def upgrade(database_url: str, revision: str) -> None:
    """Bring the database to an earlier revision."""

    def run(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", str(FOLDER))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(database_url), poolclass=NullPool
    )
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()
