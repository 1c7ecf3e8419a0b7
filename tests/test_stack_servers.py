"""The embedded servers: they start, keep what was written through stops and kills, and come back by themselves."""

import asyncio
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio as redis
from redis.exceptions import RedisError

from fairgate.stack.embedded import Stack, open_stack
from fairgate.stack.errors import StackError
from tests.servers import processes_on, until


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder that the servers' account can enter."""
    for name in ("FAIRGATE_DATABASE_URL", "FAIRGATE_REDIS_URL", "FAIRGATE_MASTER_KEY"):
        monkeypatch.delenv(name, raising=False)
    folder = Path(tempfile.mkdtemp(prefix="fairgate-stack-"))
    folder.chmod(0o711)
    yield folder / "data"
    shutil.rmtree(folder)


async def write(stack: Stack) -> None:
    connection = await asyncpg.connect(stack.database_url)
    await connection.execute("CREATE TABLE kept (id int); INSERT INTO kept VALUES (7)")
    await connection.close()
    async with redis.Redis.from_url(stack.redis_url) as client:
        await client.set("kept", "7")


async def kept(stack: Stack) -> bool:
    """Whether both servers answer with what `write` wrote; False while one of them is away."""
    try:
        connection = await asyncpg.connect(stack.database_url)
        found = await connection.fetchval("SELECT id FROM kept")
        await connection.close()
        async with redis.Redis.from_url(stack.redis_url) as client:
            return bool(found == 7 and await client.get("kept") == b"7")
    except (OSError, RedisError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False


async def test_what_was_written_survives_a_stop_and_a_start(data: Path) -> None:
    async with open_stack(data) as stack:
        await write(stack)
        first_key = stack.master_key
    assert processes_on(data) == []
    async with open_stack(data) as stack:
        assert await kept(stack)
        assert stack.master_key == first_key


@pytest.mark.parametrize("server", ["postgres", "valkey"])
async def test_a_killed_server_comes_back_with_its_data(data: Path, server: str) -> None:
    reports: list[str] = []
    async with open_stack(data, report=reports.append) as stack:
        await write(stack)
        # Killed within the second that the append-only file may lag: the kernel has it already.
        os.kill(stack.supervisor.process_id(server), signal.SIGKILL)

        async def restarted() -> bool:
            return stack.supervisor.restarts(server) == 1 and await kept(stack)

        await until(restarted)
    assert reports == [f"{server} ended with SIGKILL; starting it again."]
    assert processes_on(data) == []


async def test_a_killed_backend_costs_only_its_connections(data: Path) -> None:
    async with open_stack(data) as stack:
        await write(stack)
        connection = await asyncpg.connect(stack.database_url)
        os.kill(connection.get_server_pid(), signal.SIGKILL)
        await until(lambda: kept(stack))
        assert stack.supervisor.restarts("postgres") == 0
        connection.terminate()


async def test_the_servers_are_durable_private_and_never_forget(data: Path) -> None:
    async with open_stack(data) as stack:
        connection = await asyncpg.connect(stack.database_url)
        for setting, value in (("fsync", "on"), ("synchronous_commit", "on"), ("listen_addresses", "")):
            assert await connection.fetchval("SELECT current_setting($1)", setting) == value
        await connection.close()
        async with redis.Redis.from_url(stack.redis_url) as client:
            for setting, value in (("appendonly", "yes"), ("appendfsync", "everysec"), ("port", "0")):
                assert await client.config_get(setting) == {setting: value}
            assert await client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert stat.S_IMODE((data / "stack.json").stat().st_mode) == 0o600
        assert stat.S_IMODE((data / "run").stat().st_mode) == 0o700
    assert not (data / "stack.json").exists()


async def test_a_wrong_password_opens_neither_server(data: Path) -> None:
    async with open_stack(data, durable=False) as stack:
        wrong = stack.database_url.replace("fairgate:", "fairgate:x")
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(wrong)
        async with redis.Redis.from_url(stack.redis_url.replace("//:", "//:x")) as client:
            with pytest.raises(RedisError):
                await client.ping()


@pytest.mark.parametrize("name", ["a, 'Ü' \"b\"", "a long name " * 8])
async def test_a_folder_with_an_odd_or_long_name_serves_too(data: Path, name: str) -> None:
    async with open_stack(data / name, durable=False) as stack:
        await write(stack)
        assert await kept(stack)


async def test_servers_named_by_the_environment_are_used_instead(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRGATE_DATABASE_URL", "postgresql://elsewhere/db")
    monkeypatch.setenv("FAIRGATE_REDIS_URL", "redis://elsewhere")
    async with open_stack(data) as stack:
        assert (stack.database_url, stack.redis_url) == ("postgresql://elsewhere/db", "redis://elsewhere")
        assert stack.environment()["FAIRGATE_DATABASE_URL"] == "postgresql://elsewhere/db"
        assert processes_on(data) == []
    monkeypatch.delenv("FAIRGATE_REDIS_URL")
    monkeypatch.setenv("FAIRGATE_MASTER_KEY", "given")
    async with open_stack(data) as stack:
        assert stack.database_url == "postgresql://elsewhere/db"
        assert stack.master_key == "given"
        async with redis.Redis.from_url(stack.redis_url) as client:
            assert await client.ping()
        with pytest.raises(KeyError):
            stack.supervisor.process_id("postgres")


async def test_data_of_another_major_version_are_left_alone(data: Path) -> None:
    async with open_stack(data, durable=False):
        pass
    (data / "postgres" / "PG_VERSION").write_text("17\n")
    with pytest.raises(StackError, match=r"written by PostgreSQL 17, this is 18: move it away"):
        async with open_stack(data, durable=False):
            pass
    assert processes_on(data) == []


async def test_a_lost_password_is_told(data: Path) -> None:
    async with open_stack(data, durable=False):
        pass
    (data / "postgres.key").unlink()
    with pytest.raises(StackError, match="does not open the data"):
        async with open_stack(data, durable=False):
            pass


async def test_a_start_interrupted_in_the_middle_leaves_nothing_and_the_next_one_succeeds(data: Path) -> None:
    async def start() -> None:
        async with open_stack(data, durable=False):
            pass

    async def making() -> bool:
        return (data / "postgres.new" / "PG_VERSION").exists()

    interrupted = asyncio.create_task(start())
    await until(making)
    interrupted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await interrupted
    assert processes_on(data) == []
    assert not (data / "postgres").exists()
    async with open_stack(data, durable=False) as stack:
        await write(stack)


async def test_a_pid_file_that_names_another_program_by_now_stops_nobody(data: Path) -> None:
    async with open_stack(data, durable=False) as stack:
        await write(stack)
    owner = (data / "postgres").stat()
    stale = data / "postgres" / "postmaster.pid"
    sleeper = await asyncio.create_subprocess_exec(
        "sleep", "60", user=owner.st_uid if os.geteuid() == 0 else None, cwd="/"
    )
    stale.write_text(f"{sleeper.pid}\n{data / 'postgres'}\n0\n5432\n{data / 'run'}\n\n0 0\n")
    os.chown(stale, owner.st_uid, owner.st_gid)
    try:
        async with open_stack(data, durable=False) as stack:
            assert await kept(stack)
    finally:
        sleeper.kill()
        await sleeper.wait()
