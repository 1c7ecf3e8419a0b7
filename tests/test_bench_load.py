"""The load clients: every request is sent and counted once, latencies count from the intended send time, and the two agree."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loadtest.bench.feed import KEY, Feed, mixed, read_feed, render
from loadtest.bench.load import Client, LoadError, Target, closed_loop_client, load_closed, load_open
from loadtest.bench.raw import Load, Requests
from loadtest.bench.shop import exchange
from tests.conftest import need

CLIENTS: tuple[Client, ...] = ("raw", "wrk")


class Till:
    """A server that answers 200 to what begins with GET and 409 to all else, and remembers keys; it can be told to be slow."""

    def __init__(self, slow_seconds: float = 0.0) -> None:
        self.keys: Counter[str] = Counter()
        self.serving: set[asyncio.Task[None]] = set()
        self._slow_seconds = slow_seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        task = asyncio.create_task(self._serve(reader, writer))
        self.serving.add(task)
        await asyncio.wait([task])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                await reader.readexactly(int(headers.get("Content-Length", "0")))
                self.keys[headers.get("Idempotency-Key", "")] += 1
                await asyncio.sleep(self._slow_seconds)
                status = "200 OK" if head.startswith("GET") else "409 Conflict"
                writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok".encode())
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(till: Till, connections: int = 4) -> AsyncIterator[Target]:
    server = await asyncio.start_server(till.serve, "127.0.0.1", 0)
    async with server:
        yield Target(server.sockets[0].getsockname()[1], connections)
        server.close()
        await asyncio.gather(*till.serving)


def keyed(method: str = "GET") -> bytes:
    return render(method, "/", {"Idempotency-Key": KEY.decode()}, b"{}" if method == "POST" else b"")


@pytest.mark.parametrize("client", CLIENTS)
async def test_each_request_carries_a_key_of_its_own_and_is_counted_once(client: Client, tmp_path: Path) -> None:
    need(client == "raw" or closed_loop_client() == "wrk", "wrk is not installed: apt-get install wrk")
    till = Till()
    async with served(till) as target:
        loaded = await load_closed(target, Feed([keyed(), keyed("POST")], rotate=True), 0.3, tmp_path, client)
    assert loaded.answered > 0
    assert loaded.per_second > 0
    assert 0 < loaded.p50_ms <= loaded.p99_ms
    assert set(till.keys.values()) == {1}
    assert 0 <= sum(till.keys.values()) - loaded.answered <= target.connections
    assert abs(loaded.failed - loaded.answered / 2) <= target.connections
    assert loaded.lost == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_feed_that_is_used_up_ends_the_load(client: Client, tmp_path: Path) -> None:
    need(client == "raw" or closed_loop_client() == "wrk", "wrk is not installed: apt-get install wrk")
    till = Till()
    async with served(till) as target:
        loaded = await load_closed(target, Feed([keyed()] * 100, rotate=False), 1.0, tmp_path, client)
    assert 99 - target.connections <= loaded.answered <= 100
    assert 0 < loaded.seconds < 1.0


async def test_our_client_and_wrk_see_the_same_server_alike(tmp_path: Path) -> None:
    need(closed_loop_client() == "wrk", "wrk is not installed: apt-get install wrk")
    seen = {}
    async with served(Till(slow_seconds=0.02)) as target:
        for client in CLIENTS:
            seen[client] = await load_closed(target, Feed([keyed()], rotate=True), 1.0, tmp_path, client)
    for loaded in seen.values():
        assert loaded.p50_ms >= 20.0
        assert loaded.per_second <= target.connections / 0.02
        assert (loaded.failed, loaded.lost) == (0, 0)


async def test_an_open_loop_counts_from_when_a_request_was_due_not_from_when_it_was_sent(tmp_path: Path) -> None:
    async with served(Till(slow_seconds=0.05), connections=1) as target:
        loaded = await load_open(target, Feed([keyed()], rotate=True), 0.4, tmp_path, rate=60.0)
    assert loaded.answered == 24
    assert loaded.p99_ms > 300  # twenty a second are served: the last waited for all before it
    assert loaded.lost == 0


async def test_a_server_that_goes_away_loses_requests_and_does_not_hang(tmp_path: Path) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    Feed([keyed()], rotate=True).write(tmp_path / "feed")
    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        load = Load(Requests(tmp_path / "feed", "run-", rotate=True), 0.2, None)
        loaded = await load.run("127.0.0.1", server.sockets[0].getsockname()[1], 3)
        server.close()
    assert (loaded.answered, loaded.lost) == (0, 3)


async def test_a_client_that_cannot_work_says_so_in_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="Refused"):
        await load_closed(Target(1, 1), Feed([keyed()], rotate=True), 0.1, tmp_path, "raw")


async def test_an_exchange_reads_each_answer_whole() -> None:
    till = Till()
    async with served(till) as target:
        answers = await exchange(target, [render("GET", "/", {}), render("POST", "/", {}, b"{}")])
    assert [(answer.status, answer.body) for answer in answers] == [(200, b"ok"), (409, b"ok")]


def test_a_feed_is_read_as_it_was_written(tmp_path: Path) -> None:
    requests = [keyed(), render("POST", "/x", {"A": "b"}, b'{"c":1}')]
    Feed(requests, rotate=False).write(tmp_path / "feed")
    (head, tail), (whole, nothing) = read_feed(tmp_path / "feed")
    assert head + KEY + (tail or b"") == requests[0]
    assert (whole, nothing) == (requests[1], None)


def test_one_in_so_many_is_another() -> None:
    assert mixed([b"m"] * 9, [b"f", b"g"], 5) == [b"m"] * 4 + [b"f"] + [b"m"] * 4 + [b"g"]
    assert mixed([b"m"] * 3, [b"f"], 5) == []
