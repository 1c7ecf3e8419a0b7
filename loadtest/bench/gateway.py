"""`fairgate bench gateway`: measures the line over HTTP, beside an app that does nothing: document, gate, join, claim."""

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson
from redis.asyncio import Redis

from admission.keyring import Keyring
from admission.passes import Pass
from admission.room_settings import RoomSettings
from admission.rooms import Rooms
from chassis.database import Pool
from loadtest.bench.draws import (
    BYTES_AFTER_MAX,
    BYTES_BEFORE_MAX,
    Fact,
    begin_draw,
    bytes_a_waiter,
    measure_draw,
    until,
)
from loadtest.bench.draws import ROOM as DRAW_ROOM
from loadtest.bench.feed import Feed, render
from loadtest.bench.figures import Sample, median
from loadtest.bench.ground import bench_sql
from loadtest.bench.load import Client, Target, load_closed
from loadtest.bench.raw import Loaded
from loadtest.bench.shop import exchange

What = Literal["no-op", "status document", "gate, pass seen before", "gate, pass at first sight", "join", "claim"]
Serve = Callable[[str, int], AbstractAsyncContextManager[int]]
Progress = Callable[[int, int, str], None]

ROOM = "bench"
RATE_PER_MINUTE = 600_000  # the most that a room takes: here the worker is measured, not the line held back
MEASURED: tuple[What, ...] = (
    "status document",
    "gate, pass seen before",
    "gate, pass at first sight",
    "join",
    "claim",
)
JOINERS = 16


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """What to measure: how many workers serve, over how many connections they are loaded, how long and how often."""

    workers: tuple[int, ...] = (1, 2)
    connections: int = 64
    seconds: float = 5.0
    repeats: int = 3
    passes: int = 5_000
    once_per_second: int = 12_000  # requests that may be sent once only: more than are answered in that time
    claims_per_second: int = 6_000
    entries: int = 1_000_000
    client: Client = "wrk"


def quick_gateway_settings() -> GatewaySettings:
    """Shorter measurements, once each, so that a run ends within a minute."""
    return GatewaySettings(workers=(1,), seconds=1.0, repeats=1, passes=1_000, entries=100_000)


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """One row of the result."""

    what: What
    workers: int
    connections: int


@dataclass(slots=True)
class GatewayMeasured:
    """All that one run found. `joined` and `admitted` are what answers told of; as many more may be unheard at most."""

    samples: dict[GatewayRow, list[Sample]] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    joined: int = 0
    admitted: int = 0
    unheard: int = 0

    def medians(self) -> dict[GatewayRow, Sample]:
        """Each row's median over the rounds."""
        return {row: median(samples) for row, samples in self.samples.items()}


@dataclass(frozen=True, slots=True)
class GatewayStage:
    """What a run needs: `serve` a program's app ("gateway" or a floor's name) with so many workers, giving its port."""

    pool: Pool
    redis_url: str
    keyring: Keyring
    serve: Serve
    folder: Path


class GatewayBench:
    """One run. `progress` hears how many steps of how many are done, and what comes now."""

    def __init__(self, stage: GatewayStage, settings: GatewaySettings, progress: Progress) -> None:
        self._stage = stage
        self._settings = settings
        self._progress = progress
        self.measured = GatewayMeasured()
        self._step = 0
        self._steps = settings.repeats * len(settings.workers) * (len(MEASURED) + 1)

    async def run(self) -> GatewayMeasured:
        """Measure everything, each round all rows in turn, and hold what was told against what is recorded."""
        settings = RoomSettings(
            title="Bench", method="fifo", rate_per_minute=RATE_PER_MINUTE, turn_seconds=3600, stock_latency_ms_max=None
        )
        await Rooms(self._stage.pool).put(ROOM, settings, actor="bench")
        for repeat in range(1, self._settings.repeats + 1):
            for workers in self._settings.workers:
                async with self._stage.serve("no_op", workers) as port:
                    await self._measure(repeat, "no-op", workers, port, Feed([render("GET", "/", {})], rotate=True))
                async with self._stage.serve("gateway", workers) as port:
                    await self._measure_gateway(repeat, workers, port)
        await self._prove()
        self._progress(self._step, self._steps, f"a draw of {self._settings.entries:,}")
        async with self._stage.serve("gateway", 1) as port:
            self.measured.facts += await self._measure_draw(port)
        self._progress(self._steps, self._steps, "done")
        return self.measured

    async def _measure_gateway(self, repeat: int, workers: int, port: int) -> None:
        """Every row of the gateway, on one running server."""
        settings = self._settings
        status = render("GET", f"/rooms/{ROOM}/status", {})
        await self._measure(repeat, "status document", workers, port, Feed([status], rotate=True))
        seen = self._gate_requests(settings.passes)
        target = Target(port, settings.connections)
        # Each worker must have seen each pass: twice as often as there are workers is likely enough.
        await load_closed(target, Feed(seen * workers * 2, rotate=False), 60, self._stage.folder, "raw")
        await self._measure(repeat, "gate, pass seen before", workers, port, Feed(seen, rotate=True))
        once = round(settings.once_per_second * settings.seconds)
        fresh = self._gate_requests(once)
        await self._measure(repeat, "gate, pass at first sight", workers, port, Feed(fresh, rotate=False))
        joins = [_join_request(_new_client_id()) for _ in range(once)]
        joined = await self._measure(repeat, "join", workers, port, Feed(joins, rotate=False))
        self.measured.joined += joined.answered - joined.failed
        if not self.measured.facts:  # while all who joined still wait
            async with Redis.from_url(self._stage.redis_url) as redis:
                after = await bytes_a_waiter(redis, ROOM, "numbers")
            self.measured.facts.append(
                Fact("what a waiter costs Redis after the opening", after, "bytes", BYTES_AFTER_MAX)
            )
        claims = await self._called_tickets(port, round(settings.claims_per_second * settings.seconds))
        claimed = await self._measure(repeat, "claim", workers, port, Feed(claims, rotate=False))
        self.measured.admitted += claimed.answered - claimed.failed
        if claimed.failed:
            self.measured.faults.append(f"{claimed.failed:,} of {claimed.answered:,} claims of called tickets refused")

    async def _measure_draw(self, port: int) -> list[Fact]:
        """What a waiter costs, and a large draw."""
        stage, settings = self._stage, self._settings
        async with Redis.from_url(stage.redis_url) as redis:
            await begin_draw(stage.pool)
            joins = [_join_request(_new_client_id(), DRAW_ROOM) for _ in range(settings.passes)]
            await until(lambda: self._joins(port), "the draw's room takes entries")
            target = Target(port, settings.connections)
            await load_closed(target, Feed(joins, rotate=False), 60, stage.folder, "raw")
            before = await bytes_a_waiter(redis, DRAW_ROOM, "entries")
            return [
                Fact("what a waiter costs Redis before the opening", before, "bytes", BYTES_BEFORE_MAX),
                *await measure_draw(stage.pool, redis, settings.entries),
            ]

    async def _joins(self, port: int) -> bool:
        (answer,) = await exchange(Target(port, 1), [_join_request(_new_client_id(), DRAW_ROOM)])
        return answer.status == 201

    def _gate_requests(self, many: int) -> list[bytes]:
        """The gate's question for so many passes, each of a buyer of its own."""
        now, run = int(time.time()), secrets.token_hex(6)
        signer = self._stage.keyring.signer
        tokens = (signer.sign(Pass(ROOM, f"{run}-{n}", f"{run}-{n}", now, now + 7200)) for n in range(many))
        return [render("GET", f"/gate/{ROOM}?dialect=nginx", {"Fairgate-Pass": token}) for token in tokens]

    async def _called_tickets(self, port: int, many: int) -> list[bytes]:
        """The claims of so many buyers who joined over HTTP and are called."""
        self._progress(self._step, self._steps, f"{many:,} buyers join, to claim")
        keys = [secrets.token_urlsafe(32) for _ in range(many)]
        parts = [keys[part::JOINERS] for part in range(JOINERS)]
        answers = await asyncio.gather(
            *(exchange(Target(port, 1), [_join_request(_client_id(secret)) for secret in part]) for part in parts)
        )
        claims, last = [], 0
        for part, told in zip(parts, answers, strict=True):
            for secret, answer in zip(part, told, strict=True):
                document = orjson.loads(answer.body)
                last = max(last, document["number"])
                headers = {"Fairgate-Ticket": document["ticket"], "Fairgate-Secret": secret}
                claims.append(render("POST", f"/rooms/{ROOM}/passes", headers))
        self.measured.joined += many
        await until(lambda: self._has_called(port, last), f"place {last:,} is called")
        return claims

    async def _has_called(self, port: int, place: int) -> bool:
        (answer,) = await exchange(Target(port, 1), [render("GET", f"/rooms/{ROOM}/status", {})])
        return bool(orjson.loads(answer.body)["called"] >= place)

    async def _measure(self, repeat: int, what: What, workers: int, port: int, feed: Feed) -> Loaded:
        """Load, and keep what it says as a sample of its row."""
        settings = self._settings
        self._progress(self._step, self._steps, f"round {repeat}: {what}, {workers} workers")
        self._step += 1
        target = Target(port, settings.connections)
        loaded = await load_closed(target, feed, settings.seconds, self._stage.folder, settings.client)
        sample = Sample(round(loaded.per_second, 1), loaded.p50_ms, loaded.p99_ms, 0, loaded.failed + loaded.lost)
        self.measured.samples.setdefault(GatewayRow(what, workers, settings.connections), []).append(sample)
        if what in ("join", "claim"):
            self.measured.unheard += loaded.lost + settings.connections
        return loaded

    async def _prove(self) -> None:
        """What Postgres holds must be what was told, but for requests that nobody waited for; nothing stands there twice."""
        row = await self._stage.pool.fetchrow(bench_sql("line_proof.sql"), ROOM)
        assert row is not None
        told = self.measured
        if not told.admitted <= row["claims"] <= told.admitted + told.unheard:
            told.faults.append(f"{row['claims']:,} claims recorded where {told.admitted:,} were told")
        if row["claims"] != row["places"] or row["claims"] != row["jtis"]:
            told.faults.append(f"{row['claims']:,} claims on {row['places']:,} places with {row['jtis']:,} passes")
        if row["number_limit"] < told.joined:
            told.faults.append(f"{told.joined:,} joins were told above the limit of {row['number_limit']:,}")


def _client_id(secret: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()).rstrip(b"=").decode()


def _new_client_id() -> str:
    return _client_id(secrets.token_urlsafe(32))


def _join_request(client_id: str, room: str = ROOM) -> bytes:
    return render("POST", f"/rooms/{room}/tickets", {}, orjson.dumps({"client_id": client_id}))
