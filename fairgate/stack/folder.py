"""The data folder between processes: one owner at a time, users that the owner waits for, and the papers they share.

Locks are flock(2): the kernel frees them when their holder dies, however it dies.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import time
from base64 import urlsafe_b64encode
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path

from fairgate.stack.errors import StackError

POLL_SECONDS = 0.05
USERS_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Addresses:
    """What a running stack tells the commands that join it, and the process that owns it."""

    owner: int
    database_url: str
    redis_url: str


class DataFolder:
    """DIR: its locks, its keys (made once, readable by us alone) and the addresses of the stack that runs on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._addresses = path / "stack.json"

    @classmethod
    def open(cls, path: Path) -> "DataFolder":
        """Make the folder where it is missing. Raises StackError when it cannot be written."""
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links that may change
        try:
            if whole.is_dir() and any(whole.iterdir()) and not (whole / "lock").exists():
                raise StackError(
                    f"{whole} holds files that are not Fairgate's: choose an empty folder with --data DIR."
                )
            whole.mkdir(mode=0o711, parents=True, exist_ok=True)
            (whole / "lock").touch(mode=0o600)
        except OSError as error:
            raise StackError(
                f"Fairgate cannot write to {whole} ({error.strerror}): choose another folder with --data DIR."
            ) from None
        return cls(whole)

    def own(self) -> FileIO | None:
        """The owner's lock, held until it is closed; None, at once, when another process has it."""
        lock = _open_lock(self.path / "lock")
        if not _locked(lock):
            lock.close()
            return None
        self.withdraw()  # what a killed owner left
        lock.truncate(0)
        lock.write(str(os.getpid()).encode())
        return lock

    def owner(self) -> str:
        """The process that owns the folder, for a message."""
        return (self.path / "lock").read_text(encoding="utf-8") or "?"

    def announce(self, addresses: Addresses) -> None:
        """Let other commands join: from now on they find the addresses."""
        _write_private(self._addresses, json.dumps(asdict(addresses)))

    def withdraw(self) -> None:
        """Let nobody join any more."""
        self._addresses.unlink(missing_ok=True)

    def join(self) -> tuple[FileIO, Addresses] | None:
        """The running stack's addresses and a lock: its owner waits until we close it. None while nothing runs.

        The order makes it safe: we lock before we read, the owner withdraws the addresses before it waits for locks.
        """
        lock = _open_lock(self.path / "users.lock")
        fcntl.flock(lock, fcntl.LOCK_SH)
        addresses = self._announced()
        if addresses is None:
            lock.close()
            return None
        return lock, addresses

    async def last_user(self) -> None:
        """Wait, bounded, until every command that joined is done."""
        deadline = time.monotonic() + USERS_WAIT_SECONDS
        with _open_lock(self.path / "users.lock") as lock:
            while True:
                if _locked(lock) or time.monotonic() > deadline:
                    return
                await asyncio.sleep(POLL_SECONDS)

    def secret(self, name: str) -> str:
        """32 random bytes in base64url under this name, made on first use and kept; two at once get the same."""
        file = self.path / f"{name}.key"
        if not file.exists():
            draft = file.with_name(f"{file.name}.{os.getpid()}")
            _write_private(draft, urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("="))
            with contextlib.suppress(FileExistsError):
                os.link(draft, file)
            draft.unlink()
        return file.read_text(encoding="utf-8")

    def _announced(self) -> Addresses | None:
        try:
            addresses = Addresses(**json.loads(self._addresses.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        return addresses if self.owner() == str(addresses.owner) else None


def _open_lock(path: Path) -> FileIO:
    try:
        return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+")
    except PermissionError:
        raise StackError(f"{path} belongs to another user: choose another folder with --data DIR.") from None


def _locked(lock: FileIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write_private(path: Path, text: str) -> None:
    """Replace `path` whole, readable by us alone."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
