"""A small HTTP load client on raw sockets: closed loop, or open loop at a rate with latencies from the intended send time.

Run as a program it sends a feed file's requests and prints one line of JSON, as wrk does with our script.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections import deque
from pathlib import Path

import msgspec
import uvloop

from loadtest.bench.feed import read_feed
from loadtest.bench.figures import percentile

TICK_SECONDS = 0.001
LAST_ANSWERS_SECONDS = 5.0
HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"


class Loaded(msgspec.Struct, frozen=True):
    """What a client saw. `failed`: answers with a status of 400 or more; `lost`: requests without an answer."""

    answered: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failed: int
    lost: int

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return self.answered / self.seconds if self.seconds else 0.0


class Requests:
    """The next request to send, until they are used up."""

    def __init__(self, file: Path, prefix: str, *, rotate: bool) -> None:
        self._parts = read_feed(file)
        self._prefix = prefix.encode()
        self._rotate = rotate
        self._sent = 0

    def next(self) -> bytes | None:
        """A request with a key of its own, or None when all are sent."""
        if not self._rotate and self._sent >= len(self._parts):
            return None
        head, tail = self._parts[self._sent % len(self._parts)]
        self._sent += 1
        return head if tail is None else b"%b%b%d%b" % (head, self._prefix, self._sent, tail)


class Load:
    """Requests on their way over connections of its own. Without a rate a connection sends again once it is answered."""

    def __init__(self, requests: Requests, seconds: float, rate: float | None) -> None:
        self._requests = requests
        self._seconds = seconds
        self._rate = rate
        self._started = 0.0
        self._last_answer = 0.0
        self._idle: deque[Connection] = deque()
        self._due: deque[float] = deque()
        self._issued = 0
        self._under_way = 0
        self._latencies: list[float] = []
        self._failed = 0
        self._lost = 0
        self._ended = asyncio.Event()

    async def run(self, host: str, port: int, connections: int) -> Loaded:
        """Send for as long as there is time and anything to send; wait for what is under way."""
        loop = asyncio.get_running_loop()
        opened = [await loop.create_connection(lambda: Connection(self), host, port) for _ in range(connections)]
        for transport, connection in opened:
            connection.transport = transport
            if not transport.is_closing():
                self._idle.append(connection)
        self._lost = connections - len(self._idle)
        self._started = self._last_answer = time.perf_counter()
        if self._rate is None:
            for connection in list(self._idle):
                self._send(connection, time.perf_counter())
        else:
            await self._issue(self._rate)
        await self._last_answers()
        loaded = self._loaded()
        for transport, _ in opened:
            transport.close()
        return loaded

    async def _last_answers(self) -> None:
        """Wait for what is under way, but not for ever."""
        if self._under_way:
            self._ended.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), self._seconds + LAST_ANSWERS_SECONDS)

    def _loaded(self) -> Loaded:
        ordered = sorted(self._latencies)
        p50, p99 = (round(percentile(ordered, share) * 1000, 3) for share in (0.5, 0.99))
        lost = self._lost + self._under_way + len(self._due)
        return Loaded(len(ordered), round(self._last_answer - self._started, 4), p50, p99, self._failed, lost)

    def answered(self, connection: "Connection", intended: float, status: int) -> None:
        """A connection has its answer and is free again."""
        now = time.perf_counter()
        self._last_answer = now
        self._latencies.append(now - intended)
        self._failed += status >= 400
        self._under_way -= 1
        if self._rate is not None:
            self._idle.append(connection)
            self._pump()
        elif now < self._started + self._seconds:
            self._send(connection, now)
        self._notice_end()

    def broken(self, connection: "Connection", *, in_flight: bool) -> None:
        """A connection is gone, perhaps with a request on it."""
        if connection in self._idle:
            self._idle.remove(connection)
        if in_flight:
            self._lost += 1
            self._under_way -= 1
        self._notice_end()

    async def _issue(self, rate: float) -> None:
        """Make requests due at their times, sent or not."""
        while (passed := time.perf_counter() - self._started) < self._seconds:
            while self._issued < passed * rate:
                self._due.append(self._started + self._issued / rate)
                self._issued += 1
            self._pump()
            await asyncio.sleep(TICK_SECONDS)

    def _pump(self) -> None:
        while self._due and self._idle:
            self._send(self._idle.popleft(), self._due.popleft())

    def _send(self, connection: "Connection", intended: float) -> None:
        request = self._requests.next()
        if request is None:
            self._due.clear()
            return
        self._under_way += 1
        connection.send(request, intended)

    def _notice_end(self) -> None:
        if self._under_way == 0 and not self._due:
            self._ended.set()


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request on it."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self.transport: asyncio.Transport
        self._intended: float | None = None
        self._received = b""

    def send(self, request: bytes, intended: float) -> None:
        """Send it now; its latency counts from `intended`."""
        self._intended = intended
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(HEAD_END)
        if not end:
            return
        _, named, rest = head.lower().partition(LENGTH)
        if named and len(body) < int(rest.partition(b"\r\n")[0]):
            return
        intended, self._intended = self._intended, None
        status = int(self._received[9:12])
        self._received = b""
        assert intended is not None, "an answer that nobody asked for"
        self._load.answered(self, intended, status)

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.broken(self, in_flight=self._intended is not None)


def main() -> None:
    """The program's entry."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--rotate", action="store_true")
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    load = Load(Requests(asked.file, asked.prefix, rotate=asked.rotate), asked.seconds, asked.rate)
    loaded = uvloop.run(load.run(asked.host, asked.port, asked.connections))
    sys.stdout.write(msgspec.json.encode(loaded).decode() + "\n")


if __name__ == "__main__":
    main()
