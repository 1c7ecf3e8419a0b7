"""Fixtures on real servers: a migrated database per test made from a template, and an emptied Valkey.

Each pytest worker keeps one Postgres and one Valkey for its whole session; nothing outlives a killed pytest.
"""

import asyncio
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio as redis

from chassis.database import open_pool
from chassis.settings import Settings
from fairgate.migrations.migrate import migrate
from fairgate.stack.account import choose_place, own_folder, server_account
from fairgate.stack.valkey import find_valkey
from tests.servers import ControlledServer, RunningServers, Servers

TEMPLATE = "fairgate_template"


def need(condition: object, reason: str) -> None:
    """Skip the test when the machine lacks a part; under FAIRGATE_TEST_ALL=1 fail instead, as CI must not skip."""
    if condition:
        return
    if os.environ.get("FAIRGATE_TEST_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """One Postgres and one Valkey for this pytest worker, not durable against power cuts."""
    # Not below pytest's own folder: that one is closed to the account which runs the servers when we are root.
    with tempfile.TemporaryDirectory(prefix="fairgate-test-") as folder:
        Path(folder).chmod(0o711)
        with RunningServers(Path(folder) / "stack") as running:
            yield running


@pytest.fixture(scope="session")
def template(servers: Servers) -> str:
    """The name of a migrated database that others are copied from."""
    asyncio.run(_execute(servers.database_url, f"CREATE DATABASE {TEMPLATE}"))
    asyncio.run(migrate(_database(servers.database_url, TEMPLATE)))
    return TEMPLATE


@pytest.fixture
async def database_url(servers: Servers, template: str) -> AsyncIterator[str]:
    """A fresh, migrated database for this test."""
    name = f"test_{secrets.token_hex(8)}"
    await _execute(servers.database_url, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    yield _database(servers.database_url, name)
    await _execute(servers.database_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def redis_url(servers: Servers) -> str:
    """This worker's Valkey, emptied."""
    async with redis.Redis.from_url(servers.redis_url) as client:
        await client.flushall()
    return servers.redis_url


@pytest.fixture
def settings(database_url: str, redis_url: str, servers: Servers) -> Settings:
    """The settings of a process that works on this test's database and Valkey."""
    return _settings(database_url, redis_url, servers)


@pytest.fixture
async def pool(database_url: str, servers: Servers) -> "AsyncIterator[asyncpg.Pool[asyncpg.Record]]":
    """A pool on this test's database, with the time limits that the product sets."""
    pool = await open_pool(_settings(database_url, servers.redis_url, servers))
    try:
        yield pool
    finally:
        pool.terminate()


@pytest.fixture
async def valkey_server() -> AsyncIterator[ControlledServer]:
    """A Valkey of this test's own, running; `await valkey_server.kill()` and `.start()` take it down and up."""
    with tempfile.TemporaryDirectory(prefix="fairgate-valkey-") as folder:
        Path(folder).chmod(0o711)
        account = server_account()
        place = choose_place(Path(folder), account)
        valkey = find_valkey(place, own_folder(place / "run", account), account, secrets.token_hex(8))
        valkey.make_data()
        async with ControlledServer(valkey.url, valkey.service(), Path(folder) / "valkey.log") as server:
            yield server


def _settings(database_url: str, redis_url: str, servers: Servers) -> Settings:
    return Settings(database_url=database_url, redis_url=redis_url, master_key=servers.master_key)


def _database(server_url: str, name: str) -> str:
    return server_url.replace("@/postgres?", f"@/{name}?")


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
