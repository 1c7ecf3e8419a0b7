"""A proxy before Postgres that loses answers: the statement was committed, and whoever sent it never hears so."""

import asyncio
import contextlib
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"
BIND = b"B"  # what a client's message begins with that runs a prepared statement
READY = b"Z\x00\x00\x00\x05I"  # what the server's answer ends with, after the commit


class FaultProxy:
    """Listens on a Unix socket of its own and passes on what it hears, but for what a test asks it to lose."""

    def __init__(self, database_url: str) -> None:
        self._upstream = str(Path(parse_qs(urlsplit(database_url).query)["host"][0]) / SOCKET)
        self._folder = tempfile.TemporaryDirectory(prefix="fairgate-proxy-")
        self._lose = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.statements = 0
        self.url = database_url.partition("?")[0] + f"?host={self._folder.name}"

    def lose_answers(self, count: int) -> None:
        """Lose the answers of the next `count` statements, and cut their connections."""
        self._lose = count

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, str(Path(self._folder.name) / SOCKET))
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
            if data.startswith(BIND):
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
                if lost.endswith(READY):
                    break
                continue
            writer.write(data)
            await writer.drain()
        writer.close()
