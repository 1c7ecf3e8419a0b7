"""`fairgate bench engine`: measures strategies against each other, variants in turn, and audits what each has written."""

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from chassis.database import Pool
from counters.lanes import LaneSettings
from counters.rules import Done, Refused
from counters.store import Stock
from loadtest.bench.figures import Sample, median
from loadtest.bench.ground import CONNECTIONS, Ground, Pools, bench_sql
from loadtest.bench.measure import Tally, closed_loop, tries
from loadtest.bench.plan import EngineSettings, Variant, variants
from loadtest.strategies.choose import open_strategy
from loadtest.strategies.proof import read_proof
from loadtest.strategies.strategy import OFFERED, Strategy, StrategyName, TrialSku, trial_sku

ENDLESS = 1_000_000_000
UNITS_PER_SECOND = 20_000  # as many rows as one row a unit can use up in that time
FLOOR_CALLERS = 64
RUSH_CALLERS = 64
FLOOR_SECONDS_MAX = 2.0

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class SoldOut:
    """What became of a rush for too little stock. `granted` is what callers were told."""

    stock: int
    tries: int
    granted: int
    oversold: int
    faults: tuple[str, ...]


@dataclass(slots=True)
class Measured:
    """All that one run found; `faults` by variant are where rows and answers disagree."""

    samples: dict[Variant, list[Sample]] = field(default_factory=dict)
    floor: dict[str, list[Sample]] = field(default_factory=dict)
    faults: dict[Variant, list[str]] = field(default_factory=dict)
    sold_out: dict[StrategyName, SoldOut] = field(default_factory=dict)

    def medians(self) -> dict[Variant, Sample]:
        """Each variant's median over the rounds."""
        return {variant: median(samples) for variant, samples in self.samples.items()}


class EngineBench:
    """One run. `progress` hears how many steps of how many are done, and what comes now."""

    def __init__(self, ground: Ground, settings: EngineSettings, progress: Progress) -> None:
        self._ground = ground
        self._settings = settings
        self._progress = progress
        self._plan = variants(settings)
        self._steps = settings.repeats * (len(self._plan) + 1) + len(settings.strategies)
        self._step = 0

    async def run(self) -> Measured:
        """Measure everything, each round all variants in turn."""
        async with contextlib.AsyncExitStack() as block:
            return await self._run(Pools(self._ground, block))

    async def _run(self, pools: Pools) -> Measured:
        measured = Measured()
        if self._settings.history:
            await self._ground.fill_history(
                self._settings.history, lambda what: self._progress(self._step, self._steps, what)
            )
        started = time.perf_counter()
        for repeat in range(1, self._settings.repeats + 1):
            passed = time.perf_counter() - started
            if passed + passed / max(1, repeat - 1) > self._settings.seconds_max:
                break
            await self._round(repeat, pools, measured)
        for strategy in self._settings.strategies:
            self._tell(f"{strategy}: {self._settings.tries:,} tries for {self._settings.stock:,} units")
            measured.sold_out[strategy] = await self._sell_out(
                pools, Variant(strategy, shards=self._settings.shards[-1])
            )
        self._progress(self._steps, self._steps, "done")
        return measured

    async def _round(self, repeat: int, pools: Pools, measured: Measured) -> None:
        self._tell(f"round {repeat}: the floor")
        await self._measure_floor(pools, measured)
        for variant in self._plan:
            self._tell(f"round {repeat}: {describe(variant)}")
            await self._measure(pools, variant, measured)

    async def _measure(self, pools: Pools, variant: Variant, measured: Measured) -> None:
        pool = await pools.get(history=variant.history > 0, commit_ms=variant.commit_ms)
        trial = await self._open(pool, variant, self._enough(variant))
        settings = self._settings
        await closed_loop(trial.call, tasks=CONNECTIONS, seconds=settings.warm_seconds, tally=Tally())
        sample = await closed_loop(trial.call, tasks=settings.callers, seconds=settings.seconds, tally=Tally())
        measured.samples.setdefault(variant, []).append(sample)
        measured.faults.setdefault(variant, []).extend(await trial.faults(pool))

    async def _sell_out(self, pools: Pools, variant: Variant) -> SoldOut:
        pool = await pools.get()
        trial = await self._open(pool, variant, self._settings.stock)
        await tries(trial.call, tasks=RUSH_CALLERS, many=self._settings.tries, tally=Tally())
        (sku,) = trial.skus
        proof = await read_proof(pool, trial.strategy.schema, sku.id)
        granted = trial.granted[sku.id]
        faults = tuple(proof.faults(granted))
        return SoldOut(self._settings.stock, self._settings.tries, granted, proof.oversold, faults)

    async def _open(self, pool: Pool, variant: Variant, total: int) -> "_Trial":
        lanes = LaneSettings(lanes=variant.lanes, batch_max=variant.batch) if variant.lanes else LaneSettings()
        strategy = await open_strategy(variant.strategy, pool, Stock(pool, lanes), self._ground.tables)
        run = secrets.token_hex(4)
        names = [f"{run}-{place}" for place in range(variant.hot)]
        return _Trial(
            run,
            strategy,
            [trial_sku(await strategy.lay_out(name, total // variant.hot, variant.shards), name) for name in names],
        )

    def _enough(self, variant: Variant) -> int:
        """Units that a run cannot use up."""
        if variant.strategy != "skip-locked":
            return ENDLESS
        return variant.hot * round(UNITS_PER_SECOND * (self._settings.seconds + self._settings.warm_seconds))

    async def _measure_floor(self, pools: Pools, measured: Measured) -> None:
        seconds = min(self._settings.seconds, FLOOR_SECONDS_MAX)
        update = bench_sql("floor_update.sql")
        pool = await pools.get()
        await pool.execute(bench_sql("floor_table.sql"))

        async def ask(_: int) -> None:
            await pool.fetchval("SELECT 1")

        async def commit(_: int) -> None:
            await pool.execute(update)

        for name, call, callers in (("no-op statement", ask, FLOOR_CALLERS), ("one-row commit", commit, 1)):
            await closed_loop(call, tasks=callers, seconds=self._settings.warm_seconds, tally=Tally())
            sample = await closed_loop(call, tasks=callers, seconds=seconds, tally=Tally())
            measured.floor.setdefault(name, []).append(sample)

    def _tell(self, what: str) -> None:
        self._progress(self._step, self._steps, what)
        self._step += 1


def describe(variant: Variant) -> str:
    """A variant in a few words."""
    parts: list[str] = [variant.strategy]
    parts += [f"N = {variant.shards}"] if variant.strategy in OFFERED else []
    parts += [f"{variant.lanes} lanes of {variant.batch}"] if variant.lanes else []
    parts += [f"commits of {variant.commit_ms} ms"] if variant.commit_ms else []
    parts += [f"{variant.hot} hot SKUs"] if variant.hot > 1 else []
    parts += [f"{variant.history:,} past holds"] if variant.history else []
    return ", ".join(parts)


class _Trial:
    """A strategy under load, and what it told its callers, by SKU."""

    def __init__(self, run: str, strategy: Strategy, skus: list[TrialSku]) -> None:
        self.strategy = strategy
        self.skus = skus
        self.granted: Counter[int] = Counter()
        self._run = run
        self._keys = iter(range(1 << 62))

    async def call(self, number: int) -> Done | Refused:
        """One reserve of one unit, with a key of its own; SKUs take turns."""
        sku = self.skus[number % len(self.skus)]
        outcome = await self.strategy.reserve(sku, f"{self._run}-{next(self._keys)}")
        if isinstance(outcome, Done):
            self.granted[sku.id] += 1
        return outcome

    async def faults(self, pool: Pool) -> list[str]:
        """Where what is written is not what callers were told."""
        found = []
        for sku in self.skus:
            proof = await read_proof(pool, self.strategy.schema, sku.id)
            found += [f"{sku.name}: {fault}" for fault in proof.faults(self.granted[sku.id])]
        return found
