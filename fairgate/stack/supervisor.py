"""Keeps children running: starts them in order, restarts what dies, stops them in reverse and leaves nothing behind.

Each child has a session of its own, so that the terminal's Ctrl-C reaches only us, and is tied to our life by
`launch.py`: when we are killed, the kernel signals it.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from fairgate.stack.account import Account
from fairgate.stack.errors import StackError
from fairgate.stack.logs import bound, fresh_log, last_words

LIBRARIES = "LD_LIBRARY_PATH"
LAUNCHER = Path(__file__).with_name("launch.py")
READY_POLL_SECONDS = 0.02
BACK_OFF_SECONDS_MIN = 0.05
BACK_OFF_SECONDS_MAX = 5.0
STEADY_SECONDS = 10.0
LOG_CHECK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    """One child: what to run, how to see that it is ready, and how to ask it to stop.

    `ready` answers True once the child serves; it may raise OSError or ConnectionError while it does not. `stops` are
    tried in order, each with its patience; SIGKILL to the whole process group follows. `lock` is a file that stays
    locked until the child and all its children are gone. `environment` replaces ours where given.
    """

    name: str
    argv: tuple[str, ...]
    ready: Callable[[], Awaitable[bool]] | None = None
    ready_seconds: float = 20.0
    environment: Mapping[str, str] | None = None
    folder: Path | None = None
    account: Account | None = None
    lock: Path | None = None
    lock_seconds: float = 15.0
    death_signal: signal.Signals = signal.SIGTERM
    stops: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGTERM, 10.0),)

    def launch_argv(self) -> tuple[str, ...]:
        """The command that becomes this service through `launch.py`, as a child of the calling process."""
        plan = {
            "parent": os.getpid(),
            "death_signal": int(self.death_signal),
            "account": None if self.account is None else [self.account.user_id, self.account.group_id],
            "lock": None if self.lock is None else str(self.lock),
            "lock_seconds": self.lock_seconds,
            "borrowed": list(self._borrowed()),
        }
        return (sys.executable, "-I", "-S", str(LAUNCHER), json.dumps(plan), *self.argv)

    def launch_environment(self) -> dict[str, str] | None:
        """What `launch.py` runs with; None stands for ours. What it borrows it drops before it becomes the program."""
        return None if self.environment is None else {**self.environment, **self._borrowed()}

    def _borrowed(self) -> dict[str, str]:
        """Where our interpreter finds its own library, if that must be said: the program must not look there."""
        if self.environment is None or LIBRARIES not in os.environ:
            return {}
        return {LIBRARIES: os.environ[LIBRARIES]}


@dataclass(slots=True)
class _Child:
    service: Service
    process: asyncio.subprocess.Process
    restarts: int = 0
    watcher: "asyncio.Task[None] | None" = None
    started_at: float = field(default_factory=time.monotonic)


class Supervisor:
    """An async context manager that owns children; leaving it stops them all, last started first.

    `report` is told in one sentence when a child had to be restarted.
    """

    def __init__(self, log_folder: Path, report: Callable[[str], None] = lambda _: None) -> None:
        self._log_folder = log_folder
        self._report = report
        self._children: dict[str, _Child] = {}
        self._log_keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._log_folder.mkdir(mode=0o700, exist_ok=True)
        self._log_keeper = asyncio.create_task(self._keep_logs_bounded())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in reversed(list(self._children)):
            await self.stop(name)
        if self._log_keeper is not None:
            await _cancelled(self._log_keeper)

    async def start(self, service: Service) -> None:
        """Start `service` and wait until it is ready. Raises StackError, with its last words, when it does not come up."""
        if service.name in self._children:
            raise ValueError(f"{service.name} runs already")
        fresh_log(self.log_file(service.name))
        child = _Child(service, await self._spawn(service))
        self._children[service.name] = child
        try:
            await self._await_ready(child)
        except BaseException:
            await self.stop(service.name)
            raise
        child.watcher = asyncio.create_task(self._watch(child))

    async def run(self, service: Service) -> None:
        """Run a program to its end. Raises StackError, with its last words, when it fails."""
        fresh_log(self.log_file(service.name))
        process = await self._spawn(service)
        try:
            code = await process.wait()
        finally:
            _kill_group(process.pid)
            await process.wait()
        if code != 0:
            raise StackError(self._failed(service, f"failed with {_ending(code)}"))

    async def stop(self, name: str) -> None:
        """Stop one child and whatever is left of its process group; a child that is gone already is no error."""
        child = self._children.pop(name)
        if child.watcher is not None:
            await _cancelled(child.watcher)
        try:
            for stop_signal, patience_seconds in child.service.stops:
                if child.process.returncode is not None:
                    break
                with contextlib.suppress(ProcessLookupError):
                    child.process.send_signal(stop_signal)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(child.process.wait(), patience_seconds)
        finally:  # also when we are cancelled while we wait: nobody else knows this child any more
            _kill_group(child.process.pid)
        await child.process.wait()

    def process_id(self, name: str) -> int:
        """The process id of a child now; it changes when the child is restarted."""
        return self._children[name].process.pid

    def restarts(self, name: str) -> int:
        """How often a child had to be restarted."""
        return self._children[name].restarts

    def log_file(self, name: str) -> Path:
        """Where a child's output goes."""
        return self._log_folder / f"{name}.log"

    async def _spawn(self, service: Service) -> asyncio.subprocess.Process:
        with self.log_file(service.name).open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *service.launch_argv(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=service.launch_environment(),
                cwd=service.folder,
                start_new_session=True,
            )

    async def _await_ready(self, child: _Child) -> None:
        deadline = time.monotonic() + child.service.ready_seconds
        while True:
            if child.process.returncode is not None:
                raise StackError(self._failed(child.service, "stopped at once"))
            if child.service.ready is None or await _is_ready(child.service.ready):
                return
            if time.monotonic() > deadline:
                waited = f"was not ready after {child.service.ready_seconds:.0f} s"
                raise StackError(self._failed(child.service, waited))
            await asyncio.sleep(READY_POLL_SECONDS)

    def _failed(self, service: Service, what: str) -> str:
        log = self.log_file(service.name)
        return f"{service.name} {what} (see {log}): {last_words(log) or 'it said nothing'}"

    async def _watch(self, child: _Child) -> None:
        """Wait for the child's end and start it again, more slowly each time it fails soon after."""
        back_off_seconds = BACK_OFF_SECONDS_MIN
        while True:
            code = await child.process.wait()
            _kill_group(child.process.pid)
            self._report(f"{child.service.name} ended with {_ending(code)}; starting it again.")
            if time.monotonic() - child.started_at > STEADY_SECONDS:
                back_off_seconds = BACK_OFF_SECONDS_MIN
            while not await self._respawned(child, back_off_seconds):
                back_off_seconds = min(back_off_seconds * 2, BACK_OFF_SECONDS_MAX)
            back_off_seconds = min(back_off_seconds * 2, BACK_OFF_SECONDS_MAX)

    async def _respawned(self, child: _Child, after_seconds: float) -> bool:
        await asyncio.sleep(after_seconds)
        try:
            child.process = await self._spawn(child.service)
        except OSError as error:  # out of processes, memory or disk: it may pass
            self._report(f"{child.service.name} cannot be started now: {error.strerror}.")
            return False
        child.started_at = time.monotonic()
        child.restarts += 1
        return True

    async def _keep_logs_bounded(self) -> None:
        while True:
            await asyncio.sleep(LOG_CHECK_SECONDS)
            for name in list(self._children):
                bound(self.log_file(name))


async def _is_ready(ready: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await ready()
    except (OSError, ConnectionError):
        return False


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


def _kill_group(group_id: int) -> None:
    """End what a dead or stubborn child left in its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group_id, signal.SIGKILL)


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
