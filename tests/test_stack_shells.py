"""Two shells on one data folder, and ends of every kind: one owner, one clear sentence, no process left behind."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.servers import PROJECT, gone, processes_on, until


@pytest.fixture
async def data() -> AsyncIterator[Path]:
    """A data folder that the servers' account can enter."""
    folder = Path(tempfile.mkdtemp(prefix="fairgate-shells-"))
    folder.chmod(0o711)
    yield folder / "data"
    await gone(folder)
    shutil.rmtree(folder)


@contextlib.asynccontextmanager
async def shell(data: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command that keeps a stack on `data` until its input ends."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.servers", str(data), *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=PROJECT,
        env={name: value for name, value in os.environ.items() if not name.startswith("FAIRGATE_")},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def addresses(process: asyncio.subprocess.Process) -> list[str]:
    """Where the command's servers are, once they run."""
    assert process.stdout is not None
    found: list[str] = json.loads(await process.stdout.readline())
    return found


async def test_of_two_shells_at_once_one_owns_and_the_other_says_one_sentence(data: Path) -> None:
    async with shell(data) as first, shell(data) as second:
        outcomes = [await process.stdout.readline() for process in (first, second) if process.stdout is not None]
        owner, other = (first, second) if outcomes[0] else (second, first)
        assert sorted(map(bool, outcomes)) == [False, True]
        _, said = await other.communicate()
        assert other.returncode == 1
        assert said.decode() == (
            f"Fairgate already runs on {data} (process {owner.pid}): stop it, or choose another folder with --data DIR.\n"
        )


async def test_a_command_joins_the_running_stack_and_its_owner_waits_for_it(data: Path) -> None:
    async with shell(data) as owner:
        urls = await addresses(owner)
        async with shell(data, "--join") as command:
            assert await addresses(command) == urls
            owner.send_signal(signal.SIGTERM)
            connection = await asyncpg.connect(urls[0])
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(owner.wait(), 0.3)
            assert await connection.fetchval("SELECT 1") == 1
            await connection.close()
            await command.communicate(b"")  # the end of its input is its end
            assert command.returncode == 0
        assert await owner.wait() == 128 + signal.SIGTERM
    assert processes_on(data) == []


async def test_commands_that_start_together_share_one_stack(data: Path) -> None:
    async with shell(data, "--join") as first, shell(data, "--join") as second:
        assert await addresses(first) == await addresses(second)
        await asyncio.gather(first.communicate(b""), second.communicate(b""))
        assert (first.returncode, second.returncode) == (0, 0)
    assert processes_on(data) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_to_the_whole_foreground_group_ends_everything(data: Path, how: signal.Signals) -> None:
    async with shell(data) as process:
        await addresses(process)
        os.killpg(process.pid, how)
        _, said = await process.communicate()
        assert (process.returncode, said) == (128 + how, b"")
        assert processes_on(data) == []


async def test_an_impatient_second_ctrl_c_leaves_nothing_either(data: Path) -> None:
    async with shell(data) as process:
        await addresses(process)
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)
        assert await process.wait() == 128 + signal.SIGINT
        assert processes_on(data) == []


async def test_ctrl_c_while_the_servers_start_leaves_nothing(data: Path) -> None:
    async with shell(data) as process:
        await until(lambda: asyncio.to_thread((data / "postgres.new").exists))
        os.killpg(process.pid, signal.SIGINT)
        assert await process.wait() == 128 + signal.SIGINT
        assert processes_on(data) == []


async def test_a_killed_owner_takes_its_servers_with_it_and_the_data_stay(data: Path) -> None:
    async with shell(data, "--durable") as process:
        connection = await asyncpg.connect((await addresses(process))[0])
        await connection.execute("CREATE TABLE kept AS SELECT 7 AS id")
        process.kill()
        connection.terminate()
        await process.wait()
        # The next start does not wait for the orphans to be gone: it meets them.
        async with shell(data, "--durable") as successor:
            connection = await asyncpg.connect((await addresses(successor))[0])
            assert await connection.fetchval("SELECT id FROM kept") == 7
            await connection.close()
            successor.kill()
            await successor.wait()
            await gone(data)
