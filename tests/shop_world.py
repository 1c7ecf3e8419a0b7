"""A tiny shop behind a real proxy that asks a real gateway: what the gate's tests share."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import orjson
import psutil
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.database import Pool
from chassis.settings import Settings
from fairgate.front import render_nginx
from tests.conftest import need
from tests.line_world import LineWorld, line_world, serving, until

ROOM = "onsale"
PROJECT = Path(__file__).parent.parent


@dataclass(slots=True)
class Shop:
    """A shop that answers what it was sent, and remembers that it was asked at all."""

    asked: list[str] = field(default_factory=list)

    def app(self) -> Starlette:
        async def answer(request: Request) -> Response:
            self.asked.append(request.url.path)
            seen = {"path": request.url.path, "headers": dict(request.headers), "body": len(await request.body())}
            return Response(orjson.dumps(seen), media_type="application/json")

        methods = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]
        return Starlette(routes=[Route("/{path:path}", answer, methods=methods)])


@dataclass(frozen=True, slots=True)
class Front:
    """A guarded shop as buyers reach it."""

    url: str
    world: LineWorld
    shop: Shop

    def browser(self) -> httpx.AsyncClient:
        """Somebody with a cookie jar who wants pages."""
        return httpx.AsyncClient(base_url=self.url, headers={"Accept": "text/html"}, timeout=10, trust_env=False)


@contextlib.asynccontextmanager
async def guarded_shop(proxy: str, settings: Settings, pool: Pool, folder: Path) -> AsyncIterator[Front]:
    """The whole front: `proxy` ("nginx" or "caddy") before shop and gateway."""
    url = f"http://127.0.0.1:{unused_port()}"
    shop = Shop()
    settings = settings.model_copy(update={"public_url": url})
    async with line_world(settings, pool, ROOM) as world, serving(shop.app()) as shop_url:
        addresses = {"gateway": world.url, "stock": world.url, "shop": shop_url}
        start = nginx if proxy == "nginx" else caddy
        async with start(folder, url, addresses):
            yield Front(url, world, shop)


@contextlib.asynccontextmanager
async def nginx(folder: Path, url: str, addresses: dict[str, str]) -> AsyncIterator[None]:
    command = render_nginx(
        folder,
        listen=url.removeprefix("http://"),
        gateway_url=addresses["gateway"],
        stock_url=addresses["stock"],
        shop_url=addresses["shop"],
        room=ROOM,
    )
    async with running(command, url, {}):
        yield


@contextlib.asynccontextmanager
async def caddy(folder: Path, url: str, addresses: dict[str, str]) -> AsyncIterator[None]:
    binary = Path(sys.executable).parent / "caddy"
    need(binary.exists(), "Caddy comes with the test extra: run `make setup`")
    hosts = {f"FAIRGATE_{name.upper()}": address.removeprefix("http://") for name, address in addresses.items()}
    environment = {**hosts, "FAIRGATE_SITE": url, "FAIRGATE_ROOM": ROOM, "HOME": str(folder)}
    config = PROJECT / "deploy" / "Caddyfile"
    async with running((str(binary), "run", "--config", str(config), "--adapter", "caddyfile"), url, environment):
        yield


@contextlib.asynccontextmanager
async def running(command: tuple[str, ...], url: str, environment: dict[str, str]) -> AsyncIterator[None]:
    """A proxy that answers at `url` until the block ends; its children end with it."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment}, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    words = asyncio.create_task(process.stderr.read())

    async def answers() -> bool:
        if process.returncode is not None:
            raise AssertionError((await words).decode())
        async with httpx.AsyncClient(timeout=1, trust_env=False) as client:
            with contextlib.suppress(httpx.HTTPError):
                await client.get(f"{url}/.fairgate/healthz")
                return True
        return False

    try:
        await until(answers, "the proxy answers")
        yield
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.returncode is None else []
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        _, alive = await asyncio.to_thread(psutil.wait_procs, children, 5)
        for child in alive:
            child.kill()
        await words


def unused_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
