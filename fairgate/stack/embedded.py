"""One way to get a Postgres and a Valkey: those that FAIRGATE_* variables name, else embedded ones on a data folder.

`open_stack` owns the folder's servers for as long as its block runs, or joins a stack that runs there already.
"""

import asyncio
import contextlib
import errno
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fairgate.stack.account import Account, choose_place, own_folder, server_account
from fairgate.stack.errors import StackError
from fairgate.stack.folder import POLL_SECONDS, Addresses, DataFolder
from fairgate.stack.postgres import find_postgres
from fairgate.stack.supervisor import Supervisor
from fairgate.stack.valkey import find_valkey

DEFAULT_FOLDER = Path(".fairgate")
JOIN_SECONDS = 30.0
SOCKET_PATH_BYTES_MAX = 100  # sun_path holds 108 on Linux and 104 on macOS, the end's zero among them
LONGEST_SOCKET_NAME = ".s.PGSQL.5432.lock"
PLAIN_PATH = re.compile(r"[A-Za-z0-9_./+-]+")

Mode = Literal["own", "join-or-own"]


@dataclass(frozen=True, slots=True)
class Stack:
    """Running servers: where they are, the key that seals secrets in them, and a supervisor for further children."""

    database_url: str
    redis_url: str
    master_key: str
    supervisor: Supervisor

    def environment(self) -> dict[str, str]:
        """Our environment with the FAIRGATE_* variables that lead a child to these servers."""
        return {
            **os.environ,
            "FAIRGATE_DATABASE_URL": self.database_url,
            "FAIRGATE_REDIS_URL": self.redis_url,
            "FAIRGATE_MASTER_KEY": self.master_key,
        }


@contextlib.asynccontextmanager
async def open_stack(
    data: Path = DEFAULT_FOLDER,
    mode: Mode = "own",
    *,
    durable: bool = True,
    report: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Stack]:
    """Servers for the block. `own` refuses when another process runs on `data`; `join-or-own` uses that one's servers.

    `report` hears one sentence for each restart of a child; `durable=False` is for tests. Raises StackError.
    """
    folder = DataFolder.open(data)
    async with contextlib.AsyncExitStack() as block:
        with _refusals(folder.path):
            addresses = await _addresses(folder, mode, block)
            supervisor = await block.enter_async_context(Supervisor(folder.path / "log", report))
            if addresses is None:
                addresses = await _start_servers(folder, supervisor, block, durable)
                folder.announce(addresses)
                block.push_async_callback(_end, folder)
            master_key = os.environ.get("FAIRGATE_MASTER_KEY") or folder.secret("master")
        named = _named_urls()
        yield Stack(named[0] or addresses.database_url, named[1] or addresses.redis_url, master_key, supervisor)


async def _addresses(folder: DataFolder, mode: Mode, block: contextlib.AsyncExitStack) -> Addresses | None:
    """Servers that run already, or None when we own the folder from now on and shall start them."""
    named = _named_urls()
    if named[0] and named[1]:
        return Addresses(os.getpid(), named[0], named[1])
    deadline = time.monotonic() + JOIN_SECONDS
    while True:
        lock = folder.own()
        if lock is not None:
            block.enter_context(lock)
            return None
        if mode == "own" or time.monotonic() > deadline:
            raise StackError(
                f"Fairgate already runs on {folder.path} (process {folder.owner()}): "
                "stop it, or choose another folder with --data DIR."
            )
        joined = folder.join()
        if joined is not None:
            block.enter_context(joined[0])
            return joined[1]
        await asyncio.sleep(POLL_SECONDS)


async def _start_servers(
    folder: DataFolder, supervisor: Supervisor, block: contextlib.AsyncExitStack, durable: bool
) -> Addresses:
    """Start those servers that no variable names, side by side; `block` keeps what must be tidied after them."""
    account = server_account()
    place = choose_place(folder.path, account)
    account = server_account(keep=_owner_id(place / "postgres"))
    run = _run_folder(place, account, block)

    async def postgres_url() -> str:
        postgres = find_postgres(place, run, account, folder.secret("postgres"), durable=durable)
        await postgres.make_data(supervisor)
        await supervisor.start(postgres.service())
        return postgres.url

    async def redis_url() -> str:
        valkey = find_valkey(place, run, account, folder.secret("valkey"), durable=durable)
        valkey.make_data()
        await supervisor.start(valkey.service())
        return valkey.url

    named = _named_urls()
    starts = [
        asyncio.create_task(_given(url) if url else start())
        for url, start in zip(named, (postgres_url, redis_url), strict=True)
    ]
    try:
        return Addresses(os.getpid(), *await asyncio.gather(*starts))
    except BaseException:
        for start in starts:
            if not start.cancelling():  # what is stopping already must be left to stop in its own time
                start.cancel()
        await asyncio.wait(starts)
        raise


async def _end(folder: DataFolder) -> None:
    folder.withdraw()
    await folder.last_user()


def _run_folder(place: Path, account: Account | None, block: contextlib.AsyncExitStack) -> Path:
    """A private folder for the sockets: beside the data where its path is short and plain, else a temporary one.

    Plain, because clients take a comma or a quote in a socket's path for the end of it.
    """
    run = place / "run"
    if PLAIN_PATH.fullmatch(str(run)) and len(str(run / LONGEST_SOCKET_NAME)) <= SOCKET_PATH_BYTES_MAX:
        return own_folder(run, account)
    temporary = Path(block.enter_context(tempfile.TemporaryDirectory(prefix="fairgate-", ignore_cleanup_errors=True)))
    temporary.chmod(0o711)
    return own_folder(temporary / "run", account)


def _named_urls() -> tuple[str | None, str | None]:
    """The servers of the operator's own, where they are named."""
    return os.environ.get("FAIRGATE_DATABASE_URL") or None, os.environ.get("FAIRGATE_REDIS_URL") or None


async def _given(url: str) -> str:
    return url


def _owner_id(path: Path) -> int | None:
    return path.stat().st_uid if path.exists() else None


@contextlib.contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    """Turn what the machine refuses while we start into the one sentence that a person needs."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StackError(f"The disk is full below {folder}: free some space and start again.") from None
        raise StackError(
            f"Fairgate cannot use {error.filename or folder} ({error.strerror}): "
            "mend that, or choose another folder with --data DIR."
        ) from None
