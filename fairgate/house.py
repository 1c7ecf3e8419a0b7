"""All processes of a small installation on one machine: gateway, stock API, reconciler, and where asked shop and proxy.

`start_house` brings them up side by side under the stack's supervisor, which restarts what dies.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from fairgate.front import render_nginx
from fairgate.stack.embedded import Stack
from fairgate.stack.errors import StackError
from fairgate.stack.ports import port_free
from fairgate.stack.supervisor import Service

HOST = "127.0.0.1"
SERVED_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the processes listen, all on loopback: the public front first, the others right behind it."""

    front: int

    @property
    def gateway(self) -> int:
        return self.front + 1

    @property
    def stock(self) -> int:
        return self.front + 2

    @property
    def shop(self) -> int:
        return self.front + 3

    @property
    def reconciler(self) -> int:
        return self.front + 4

    @property
    def public_url(self) -> str:
        """The origin that buyers see."""
        return f"http://{HOST}:{self.front}"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A shop behind the gate: its address, and the room whose pass it asks for."""

    shop_url: str
    room: str


def check_ports(ports: Ports) -> None:
    """Raises StackError that names the first port of ours that somebody else uses."""
    for port in (ports.front, ports.gateway, ports.stock, ports.shop, ports.reconciler):
        if not port_free(HOST, port):
            raise StackError(
                f"Port {port} on {HOST} is in use by another program: stop it, or choose others with --port {ports.front + 100}."
            )


def house_environment(stack: Stack, ports: Ports) -> dict[str, str]:
    """What the processes of the house are told."""
    return {
        **stack.environment(),
        "FAIRGATE_PUBLIC_URL": ports.public_url,
        "FAIRGATE_GATEWAY_PORT": str(ports.gateway),
        "FAIRGATE_STOCK_PORT": str(ports.stock),
        "FAIRGATE_RECONCILER_PORT": str(ports.reconciler),
    }


async def start_house(stack: Stack, ports: Ports, environment: Mapping[str, str]) -> None:
    """Start gateway, stock and reconciler; returns when all three are ready. Raises StackError."""
    await asyncio.gather(
        *(
            stack.supervisor.start(
                Service(
                    name,
                    (sys.executable, "-m", "fairgate", "serve", name),
                    ready=ready(f"http://{HOST}:{port}/readyz"),
                    environment=environment,
                )
            )
            for name, port in (("gateway", ports.gateway), ("stock", ports.stock), ("reconciler", ports.reconciler))
        )
    )


async def start_front(stack: Stack, ports: Ports, guarded: Guarded, folder: Path) -> None:
    """Start nginx before the shop, gateway and stock. Raises StackError."""
    front = render_nginx(
        folder,
        listen=f"{HOST}:{ports.front}",
        gateway_url=f"http://{HOST}:{ports.gateway}",
        stock_url=f"http://{HOST}:{ports.stock}",
        shop_url=guarded.shop_url,
        room=guarded.room,
    )
    await stack.supervisor.start(Service("front", front, ready=ready(f"{ports.public_url}/.fairgate/healthz")))


def ready(url: str) -> Callable[[], Awaitable[bool]]:
    """A probe that is True once `url` answers 200."""

    async def probe() -> bool:
        try:
            async with httpx.AsyncClient(timeout=1.0, trust_env=False) as client:
                return (await client.get(url)).status_code == 200
        except httpx.HTTPError:
            return False

    return probe


async def served(url: str, seconds: float = 30.0) -> None:
    """Wait until `url` answers 200. Raises StackError when it does not in `seconds`."""
    probe = ready(url)
    for _ in range(round(seconds / SERVED_POLL_SECONDS)):
        if await probe():
            return
        await asyncio.sleep(SERVED_POLL_SECONDS)
    raise StackError(
        f"{url} was not served within {seconds:.0f} s; the logs of the processes stand in the data folder."
    )
