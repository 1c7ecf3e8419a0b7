"""The stock API on real sockets: bodies that are too large, too slow or never end, and callers who are gone in mid-request.

Each is answered with a problem document or hung up on, in time; nothing has moved, or the key finds what has.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

import orjson
import pytest

from chassis.database import Pool
from chassis.settings import Settings
from counters.app import create
from tests.line_world import PATIENCE_SECONDS, serving
from tests.stock_counter import Counter, open_counter

BODY_SECONDS_MAX = 0.6
SLACK_SECONDS = 1.0
RESERVE = b'{"lines": [{"sku": "ticket", "quantity": 1}]}'


@dataclass(frozen=True, slots=True)
class Counted:
    """A stock API that listens on `port`, and the same stock beside it."""

    counter: Counter
    port: int

    def head(self, length: int | None, key: str = "k") -> bytes:
        """The head of a reserve by the shop; its body is chunked where no length is told."""
        size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        authorization = self.counter.shop["Authorization"]
        return (
            f"POST /v1/holds HTTP/1.1\r\nHost: stock\r\nContent-Type: application/json\r\n"
            f"Authorization: {authorization}\r\nIdempotency-Key: {key}\r\n{size}\r\n\r\n"
        ).encode()

    @contextlib.asynccontextmanager
    async def caller(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


@pytest.fixture
async def counted(settings: Settings, pool: Pool) -> AsyncIterator[Counted]:
    settings = settings.model_copy(update={"body_seconds_max": BODY_SECONDS_MAX})
    async with open_counter(settings, pool) as counter, serving(create(settings)) as url:
        await counter.world.fungible(total=1_000, shards=2)
        yield Counted(counter, int(url.rpartition(":")[2]))
        assert await counter.world.faults() == []


async def answer(reader: asyncio.StreamReader, seconds: float = SLACK_SECONDS) -> tuple[int, dict[str, object]] | None:
    """Status and document of the next answer, or None for a connection that was closed: one of them in time."""
    async with asyncio.timeout(seconds):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return int(head.split()[1]), orjson.loads(await reader.readexactly(int(length.partition(b":")[2])))


@contextlib.asynccontextmanager
async def trickling(writer: asyncio.StreamWriter, piece: bytes) -> AsyncIterator[None]:
    """A client that sends `piece` again and again, and never comes to an end."""

    async def send() -> None:
        while not writer.is_closing():
            writer.write(piece)
            await asyncio.sleep(0.02)

    sending = asyncio.create_task(send())
    try:
        yield
    finally:
        sending.cancel()


async def test_a_body_in_pieces_is_read(counted: Counted) -> None:
    async with counted.caller() as (reader, writer):
        writer.write(counted.head(len(RESERVE)))
        for start in range(0, len(RESERVE), 10):
            writer.write(RESERVE[start : start + 10])
            await writer.drain()
        answered = await answer(reader, PATIENCE_SECONDS)
        assert answered is not None and answered[0] == 201
        writer.write(counted.head(None, "another") + b"".join(b"1\r\n%c\r\n" % byte for byte in RESERVE) + b"0\r\n\r\n")
        answered = await answer(reader, PATIENCE_SECONDS)
        assert answered is not None and answered[0] == 201
    assert await counted.counter.world.counts() == (998, 2, 0)


@pytest.mark.parametrize("length", [1_000_000, None])
async def test_a_body_of_a_megabyte_is_refused_at_once(counted: Counted, length: int | None) -> None:
    async with counted.caller() as (reader, writer):
        body = b" " * 1_000_000
        writer.write(counted.head(length) + (body if length else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)))
        answered = await answer(reader)
        assert answered is None or (answered[0], answered[1]["code"]) == (413, "too-large")
    assert await counted.counter.world.counts() == (1_000, 0, 0)


@pytest.mark.parametrize("piece", [b"", b"1\r\n \r\n"])
async def test_a_body_that_trickles_in_is_given_up(counted: Counted, piece: bytes) -> None:
    async with counted.caller() as (reader, writer):
        writer.write(counted.head(None))
        async with trickling(writer, piece):
            answered = await answer(reader, BODY_SECONDS_MAX + SLACK_SECONDS)
            assert answered is not None and (answered[0], answered[1]["code"]) == (400, "malformed")
            assert await answer(reader) is None  # and the connection with it
    assert await counted.counter.world.counts() == (1_000, 0, 0)


async def test_a_slow_stranger_is_told_at_once(counted: Counted) -> None:
    async with counted.caller() as (reader, writer):
        writer.write(b"POST /v1/holds HTTP/1.1\r\nHost: stock\r\nContent-Length: 100\r\n\r\n")
        answered = await answer(reader)
        assert answered is not None and (answered[0], answered[1]["code"]) == (401, "pass-required")


@pytest.mark.parametrize("sent", [0, 20])
async def test_a_half_closed_connection_is_closed(counted: Counted, sent: int) -> None:
    async with counted.caller() as (reader, writer):
        writer.write(counted.head(len(RESERVE)) + RESERVE[:sent])
        writer.write_eof()
        assert await answer(reader) is None
    assert await counted.counter.world.counts() == (1_000, 0, 0)


@pytest.mark.parametrize("nonsense", [b"\0\1\2\r\n\r\n", b"POST /v1/holds HTTP/9.9\r\n\r\n", b"GET\r\n\r\n"])
async def test_what_is_not_http_is_hung_up_on(counted: Counted, nonsense: bytes) -> None:
    async with counted.caller() as (reader, writer):
        writer.write(nonsense)
        async with asyncio.timeout(SLACK_SECONDS):
            assert b"200 OK" not in await reader.read()


async def test_a_caller_who_hangs_up_left_nothing_or_a_hold_that_its_key_finds(counted: Counted) -> None:
    keys = [secrets.token_hex(8) for _ in range(30)]
    for place, key in enumerate(keys):
        async with counted.caller() as (reader, writer):
            writer.write(counted.head(len(RESERVE), key) + RESERVE[: len(RESERVE) - place % 2])
            await writer.drain()
            if place % 3 == 0:
                await reader.read(1)  # the answer is on its way: it was decided
    ids = set()
    for key in keys:
        hold = await counted.counter.hold(counted.counter.shop, key=key)
        again = await counted.counter.hold(counted.counter.shop, key=key)
        assert hold["id"] == again["id"]
        ids.add(hold["id"])
    assert len(ids) == len(keys)
    assert await counted.counter.world.counts() == (1_000 - len(keys), len(keys), 0)


async def test_requests_in_one_packet_are_answered_in_turn(counted: Counted) -> None:
    async with counted.caller() as (reader, writer):
        writer.write(b"".join(counted.head(len(RESERVE), key) + RESERVE for key in ("a", "b", "a")))
        answers = [await answer(reader, PATIENCE_SECONDS) for _ in range(3)]
    first, second, repeat = (found[1]["id"] for found in answers if found is not None)
    assert first == repeat != second
