"""Proxies before Postgres and Valkey that lose answers: what was asked took effect, and whoever asked never hears so."""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

SOCKET = ".s.PGSQL.5432"
BIND = b"B"  # what a client's message begins with that runs a prepared statement
READY = b"Z\x00\x00\x00\x05I"  # what the server's answer ends with, after the commit


class LosingProxy:
    """Listens on a Unix socket of its own and passes on what it hears, but for what a test asks it to lose."""

    def __init__(self, upstream: Path) -> None:
        self._upstream = str(upstream)
        self._folder = tempfile.TemporaryDirectory(prefix="fairgate-proxy-")
        self._socket = Path(self._folder.name) / SOCKET
        self._lose = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.statements = 0

    def asks(self, data: bytes) -> bool:
        """Whether a client's message asks for what may be lost."""
        raise NotImplementedError

    def ends(self, answer: bytes) -> bool:
        """Whether an answer is whole, so that what was asked has taken effect."""
        raise NotImplementedError

    def lose_answers(self, count: int) -> None:
        """Lose the answers of the next `count` statements, and cut their connections."""
        self._lose = count

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, str(self._socket))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.close()
        await self._server.wait_closed()
        self._folder.cleanup()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_unix_connection(self._upstream)
        self._open |= {writer, up_writer}
        losing = asyncio.Event()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, up_writer, losing))
                group.create_task(self._answer(up_reader, writer, losing))
        for end in (writer, up_writer):
            end.close()
            self._open.discard(end)

    async def _forward(self, reader: asyncio.StreamReader, up: asyncio.StreamWriter, losing: asyncio.Event) -> None:
        while data := await reader.read(1 << 20):
            if self.asks(data):
                self.statements += 1
                if self._lose:
                    self._lose -= 1
                    losing.set()
            up.write(data)
            await up.drain()
        up.close()

    async def _answer(self, up: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: asyncio.Event) -> None:
        lost = b""
        while data := await up.read(1 << 20):
            if losing.is_set():
                lost += data
                if self.ends(lost):
                    break
                continue
            writer.write(data)
            await writer.drain()
        writer.close()


class FaultProxy(LosingProxy):
    """Before Postgres: loses answers to prepared statements."""

    def __init__(self, database_url: str) -> None:
        super().__init__(Path(parse_qs(urlsplit(database_url).query)["host"][0]) / SOCKET)
        self.url = database_url.partition("?")[0] + f"?host={self._socket.parent}"

    def asks(self, data: bytes) -> bool:
        return data.startswith(BIND)

    def ends(self, answer: bytes) -> bool:
        return answer.endswith(READY)


class ValkeyFaultProxy(LosingProxy):
    """Before Valkey: loses answers to scripts that name `about`."""

    def __init__(self, redis_url: str) -> None:
        parts = urlsplit(redis_url)
        super().__init__(Path(unquote(parts.path)))
        self.about = b""
        self.url = parts._replace(path=quote(str(self._socket))).geturl()

    def asks(self, data: bytes) -> bool:
        return b"EVAL" in data and self.about in data

    def ends(self, answer: bytes) -> bool:
        return answer.endswith(b"\r\n")
