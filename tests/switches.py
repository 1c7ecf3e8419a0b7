"""Addresses that stay while what is behind them moves or goes away: for Valkey a TCP port, for Postgres a Unix socket."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Upstream = Callable[[], Awaitable[Streams]]
SOCKET = ".s.PGSQL.5432"


class Switch:
    """Passes connections on to `upstream`, or refuses them while there is none."""

    def __init__(self, upstream: Upstream) -> None:
        self.url = ""
        self._upstream: Upstream | None = upstream
        self._open: set[asyncio.StreamWriter] = set()

    def turn(self, upstream: Upstream | None) -> None:
        """Send whoever comes from now on to `upstream`, nowhere if None, and cut those who are connected."""
        self._upstream = upstream
        for writer in list(self._open):
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        with contextlib.suppress(OSError):
            if self._upstream is not None:
                up_reader, up_writer = await self._upstream()
                ends = {writer, up_writer}
                self._open |= ends
                await asyncio.gather(_pump(reader, up_writer), _pump(up_reader, writer), return_exceptions=True)
                self._open -= ends
        writer.close()


@contextlib.asynccontextmanager
async def valkey_switch(url: str) -> AsyncIterator[Switch]:
    """A switch before the Valkey at the TCP address `url`."""
    switch = Switch(to_valkey(url))
    server = await asyncio.start_server(switch.serve, "127.0.0.1", 0)
    parts = urlsplit(url)
    switch.url = f"redis://:{parts.password}@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with _listening(server, switch):
        yield switch


@contextlib.asynccontextmanager
async def database_switch(database_url: str) -> AsyncIterator[Switch]:
    """A switch before the Postgres at `database_url`."""
    switch = Switch(to_database(database_url))
    with tempfile.TemporaryDirectory(prefix="fairgate-switch-") as folder:
        server = await asyncio.start_unix_server(switch.serve, str(Path(folder) / SOCKET))
        switch.url = database_url.partition("?")[0] + f"?host={folder}"
        async with _listening(server, switch):
            yield switch


def to_valkey(url: str) -> Upstream:
    """The way to the Valkey at a TCP address."""
    parts = urlsplit(url)
    return lambda: asyncio.open_connection(parts.hostname, parts.port)


def to_database(database_url: str) -> Upstream:
    """The way to a Postgres on its Unix socket."""
    path = Path(parse_qs(urlsplit(database_url).query)["host"][0]) / SOCKET
    return lambda: asyncio.open_unix_connection(str(path))


@contextlib.asynccontextmanager
async def _listening(server: asyncio.Server, switch: Switch) -> AsyncIterator[None]:
    try:
        yield
    finally:
        server.close()
        switch.turn(None)
        await server.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
