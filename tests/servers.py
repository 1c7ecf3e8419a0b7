"""Real servers for the tests: a stack per pytest worker in a process of its own, and single servers to pull down.

Run as a script it keeps a stack on the folder it is given and prints its addresses; it stops when its input ends, so
that no server outlives a killed pytest.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from fairgate.stack.embedded import Mode, open_stack
from fairgate.stack.errors import StackError
from fairgate.stack.signals import run_until_stopped
from fairgate.stack.supervisor import READY_POLL_SECONDS, Service

START_SECONDS = 60.0
PROJECT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Servers:
    """The addresses of one running stack."""

    database_url: str
    redis_url: str
    master_key: str


class RunningServers:
    """A context manager: a child process that keeps a stack on `folder` until the block ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Servers:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FAIRGATE_")}
        self._process = subprocess.Popen(
            (sys.executable, "-m", "tests.servers", str(self._folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            env=environment,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the embedded stack did not start; its reason stands above"
        return Servers(*json.loads(line))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(START_SECONDS)


@dataclass(slots=True)
class ControlledServer:
    """One server that a test starts, kills (kill -9) and starts again; its data stay between."""

    url: str
    service: Service
    log: Path
    process: asyncio.subprocess.Process | None = field(default=None)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None:
            await self.kill()

    async def start(self) -> None:
        """Start the server and wait until it serves."""
        assert self.process is None, "the server runs already"
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *self.service.launch_argv(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.service.launch_environment(),
                cwd=self.service.folder,
                start_new_session=True,
            )
        assert self.service.ready is not None
        await until(self.service.ready)

    async def kill(self) -> None:
        """End the server as kill -9 does: no farewell to its clients, nothing flushed."""
        assert self.process is not None, "the server does not run"
        self.process.kill()
        await self.process.wait()
        self.process = None

    async def stop(self) -> None:
        """End the server as its operator would."""
        assert self.process is not None, "the server does not run"
        self.process.send_signal(self.service.stops[0][0])
        await self.process.wait()
        self.process = None


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = START_SECONDS) -> None:
    """Wait for a condition instead of for a time; fails when it does not hold in `seconds`."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(READY_POLL_SECONDS)


def processes_on(folder: Path) -> list[str]:
    """The processes that work in `folder` or were started with it: what must be gone after a stop."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = " ".join(process.cmdline())
            if str(folder) in words or Path(process.cwd()).is_relative_to(folder):
                found.append(f"{process.pid} {words}")
    return found


async def gone(folder: Path) -> None:
    """Wait until no process works on `folder` any more."""

    async def none_left() -> bool:
        return not processes_on(folder)

    await until(none_left)


async def keep(folder: Path, mode: Mode, durable: bool) -> int:
    """Keep a stack on `folder` until our input ends; a refusal is one line and exit code 1, as in the command line."""
    try:
        async with open_stack(folder, mode, durable=durable) as stack:
            print(json.dumps([stack.database_url, stack.redis_url, stack.master_key]))
            sys.stdout.flush()
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
            await ended.wait()
    except StackError as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--join", action="store_const", const="join-or-own", default="own", dest="mode")
    arguments.add_argument("--durable", action="store_true")
    given = arguments.parse_args()
    sys.exit(run_until_stopped(keep(given.folder, given.mode, given.durable)))
