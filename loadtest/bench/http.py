"""`fairgate bench http`: measures the stock API over HTTP, beside an app that does nothing and a bare Redis decrement."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson
from redis.asyncio import Redis

from chassis.database import Pool
from loadtest.bench.feed import Feed, mixed, render
from loadtest.bench.figures import Sample, median
from loadtest.bench.floors import COUNTER
from loadtest.bench.load import Client, Target, load_closed, load_open
from loadtest.bench.raw import Loaded
from loadtest.bench.shop import PLENTY, SCARCE, Shop, exchange, reserves
from loadtest.strategies.proof import read_proof
from loadtest.strategies.schemas import real_schema

What = Literal["no-op", "redis decrement", "reserve", "reserve, pass at first sight", "confirm", "release", "refuse"]
Way = Literal["closed", "open 50 %", "open 80 %", "one connection"]
Serve = Callable[[str, int], AbstractAsyncContextManager[int]]
Progress = Callable[[int, int, str], None]
RenderAll = Callable[[list[tuple[str, int]]], list[bytes]]

FLOORS: tuple[tuple[What, str], ...] = (("no-op", "no_op"), ("redis decrement", "redis_decrement"))
SHARES: tuple[tuple[Way, float], ...] = (("open 50 %", 0.5), ("open 80 %", 0.8))
REPLAY_EVERY = 100
CHECKED_REPLAYS = 50
SHOW_SECONDS_MAX = 120.0  # to show every pass once
REDIS_UNITS = 1_000_000_000_000


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What to measure: how many workers serve, over how many connections they are loaded, how long and how often."""

    workers: tuple[int, ...] = (1,)
    floor_workers: tuple[int, ...] = (1, 2)
    connections: int = 64
    seconds: float = 5.0
    repeats: int = 3
    passes: int = 20_000
    first_sights_per_second: int = 10_000  # more than are verified in that time
    client: Client = "wrk"


def quick_http_settings() -> HttpSettings:
    """Shorter measurements, once each, so that a run ends within a minute."""
    return HttpSettings(seconds=1.0, repeats=1, passes=4_000)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the result."""

    what: What
    way: Way
    workers: int
    connections: int


@dataclass(slots=True)
class HttpMeasured:
    """All that one run found. `told` are the holds that answers told of, `unheard` those whose answers nobody waited for."""

    samples: dict[Row, list[Sample]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    told: int = 0
    unheard: int = 0

    def medians(self) -> dict[Row, Sample]:
        """Each row's median over the rounds."""
        return {row: median(samples) for row, samples in self.samples.items()}


@dataclass(frozen=True, slots=True)
class HttpStage:
    """What a run needs: `serve` a program's app ("stock" or a floor's name) with so many workers, giving its port."""

    pool: Pool
    redis_url: str
    shop: Shop
    serve: Serve
    folder: Path


class HttpBench:
    """One run. `progress` hears how many steps of how many are done, and what comes now."""

    def __init__(self, stage: HttpStage, settings: HttpSettings, progress: Progress) -> None:
        self._stage = stage
        self._settings = settings
        self._progress = progress
        self.measured = HttpMeasured()
        self._step = 0
        self._steps = settings.repeats * (len(FLOORS) * len(settings.floor_workers) + 12 * len(settings.workers))

    async def run(self) -> HttpMeasured:
        """Measure everything, each round all rows in turn, and prove the books."""
        seen = self._stage.shop.passes(self._settings.passes)
        originals = reserves(SCARCE, self._stage.shop.passes(REPLAY_EVERY), "original")
        for repeat in range(1, self._settings.repeats + 1):
            for what, app in FLOORS:
                for workers in self._settings.floor_workers:
                    await self._measure_floor(repeat, what, app, workers)
            for workers in self._settings.workers:
                async with self._stage.serve("stock", workers) as port:
                    await self._measure_stock(repeat, workers, port, seen, originals)
        await self.prove()
        self._progress(self._steps, self._steps, "done")
        return self.measured

    async def _measure_floor(self, repeat: int, what: What, app: str, workers: int) -> None:
        feed = Feed([render("GET", "/", {})], rotate=True)
        async with Redis.from_url(self._stage.redis_url) as redis:
            await redis.set(COUNTER, REDIS_UNITS)
            kept = str((await redis.config_get("appendfsync"))["appendfsync"])
            await redis.config_set("appendfsync", "always")
            try:
                async with self._stage.serve(app, workers) as port:
                    row = Row(what, "closed", workers, self._settings.connections)
                    await self._closed(repeat, row, port, feed)
            finally:
                await redis.config_set("appendfsync", kept)
                await redis.delete(COUNTER)

    async def _measure_stock(
        self, repeat: int, workers: int, port: int, seen: list[str], originals: list[bytes]
    ) -> None:
        """Every row of the stock API, on one running server."""
        shop, seconds = self._stage.shop, self._settings.seconds

        def row(what: What, way: Way = "closed") -> Row:
            return Row(what, way, workers, 1 if way == "one connection" else self._settings.connections)

        fresh = reserves(PLENTY, shop.passes(round(self._settings.first_sights_per_second * seconds)))
        first = await self._closed(repeat, row("reserve, pass at first sight"), port, Feed(fresh, rotate=False))
        self._count_told(first)
        requests = reserves(PLENTY, seen)
        target = Target(port, self._settings.connections)
        shown = await load_closed(target, Feed(requests, rotate=False), SHOW_SECONDS_MAX, self._stage.folder, "raw")
        self._count_told(shown)
        reserved = await self._closed(repeat, row("reserve"), port, Feed(requests, rotate=True))
        self._count_told(reserved)
        for way, share in SHARES:
            feed = Feed(requests, rotate=True)
            self._count_told(await self._open(repeat, row("reserve", way), port, feed, reserved.per_second * share))
        alone = await self._closed(repeat, row("reserve", "one connection"), port, Feed(requests, rotate=True))
        self._count_told(alone)
        enough = round(reserved.per_second * seconds * 1.5) + 1_000
        endings: tuple[tuple[What, RenderAll], ...] = (("confirm", shop.confirms), ("release", shop.releases))
        for what, render_all in endings:
            ended = await self._closed(repeat, row(what), port, await self._ending(render_all, enough))
            for way, share in SHARES:
                rate = ended.per_second * share
                feed = await self._ending(render_all, round(rate * seconds) + 1)
                await self._open(repeat, row(what, way), port, feed, rate)
        await self._measure_refusals(repeat, row("refuse"), port, seen, originals)

    async def _measure_refusals(
        self, repeat: int, row: Row, port: int, seen: list[str], originals: list[bytes]
    ) -> None:
        """Refusals after sell-out, a replay in a hundred among them; replays are checked beside the load."""
        target = Target(port, 1)
        firsts = await exchange(target, originals)
        feed = Feed(mixed(reserves(SCARCE, seen), originals, REPLAY_EVERY), rotate=True)
        load = asyncio.create_task(self._closed(repeat, row, port, feed))
        checked = await exchange(target, originals[:CHECKED_REPLAYS])
        loaded = await load
        for first, again in zip(firsts[:CHECKED_REPLAYS], checked, strict=True):
            if again.status not in (200, 201) or again.headers.get("idempotent-replayed") != "true":
                self.measured.faults.append(f"a replay after sell-out was answered {again.status}")
            elif orjson.loads(again.body)["id"] != orjson.loads(first.body)["id"]:
                self.measured.faults.append("a replay after sell-out named another hold")
        replayed, sent = loaded.answered - loaded.failed, loaded.answered / REPLAY_EVERY
        if abs(replayed - sent) > 2 + row.connections / REPLAY_EVERY * 2:
            self.measured.faults.append(f"{replayed:,} of about {sent:,.0f} replays after sell-out were granted")
        samples = self.measured.samples[row]
        samples[-1] = Sample(samples[-1].per_second, samples[-1].p50_ms, samples[-1].p99_ms, loaded.failed, loaded.lost)

    async def _ending(self, render_all: RenderAll, many: int) -> Feed:
        """A feed that ends so many new holds, each once."""
        holds = await self._stage.shop.holds(many)
        self.measured.told += len(holds)
        return Feed(render_all(holds), rotate=False)

    async def _closed(self, repeat: int, row: Row, port: int, feed: Feed) -> Loaded:
        return await self._row(repeat, row, lambda: self._load(port, feed, self._settings.seconds, row.connections))

    async def _open(self, repeat: int, row: Row, port: int, feed: Feed, rate: float) -> Loaded:
        target = Target(port, row.connections)
        return await self._row(
            repeat, row, lambda: load_open(target, feed, self._settings.seconds, self._stage.folder, rate)
        )

    async def _row(self, repeat: int, row: Row, load: Callable[[], Awaitable[Loaded]]) -> Loaded:
        """Load, and keep what it says as a sample of `row`."""
        self._progress(self._step, self._steps, f"round {repeat}: {describe_row(row)}")
        self._step += 1
        loaded = await load()
        sample = Sample(round(loaded.per_second, 1), loaded.p50_ms, loaded.p99_ms, 0, loaded.failed + loaded.lost)
        self.measured.samples.setdefault(row, []).append(sample)
        return loaded

    async def _load(self, port: int, feed: Feed, seconds: float, connections: int | None = None) -> Loaded:
        target = Target(port, connections or self._settings.connections)
        client: Client = "raw" if target.connections == 1 else self._settings.client
        return await load_closed(target, feed, seconds, self._stage.folder, client)

    def _count_told(self, loaded: Loaded) -> None:
        """Count the holds of a load; a client that ends leaves at most one request a connection unheard."""
        self.measured.told += loaded.answered - loaded.failed
        self.measured.unheard += loaded.lost + self._settings.connections

    async def prove(self) -> None:
        """Audit both SKUs; what is written must be what was told, but for requests that nobody waited for."""
        schema, shop = real_schema(), self._stage.shop
        plenty = await read_proof(self._stage.pool, schema, shop.plenty)
        scarce = await read_proof(self._stage.pool, schema, shop.scarce)
        told, unheard = self.measured.told, self.measured.unheard
        if not told <= plenty.holds <= told + unheard:
            self.measured.faults.append(f"{plenty.holds:,} holds where {told:,} were told, {unheard:,} unheard at most")
        self.measured.faults += [*plenty.drift, *scarce.drift]
        self.measured.faults += [f"oversold by {one.oversold:,}" for one in (plenty, scarce) if one.oversold]


def describe_row(row: Row) -> str:
    """A row in a few words."""
    return f"{row.what}, {row.way}, {row.workers} worker{'s' if row.workers > 1 else ''}"
