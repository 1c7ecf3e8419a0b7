"""Which variants a run of the engine's bench measures (pure): every strategy where it competes, then one axis at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from counters.lanes import LaneSettings
from loadtest.strategies.choose import STRATEGIES
from loadtest.strategies.strategy import OFFERED, StrategyName

DEFAULT_LANES = LaneSettings().lanes


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What to measure. `history` is how many past holds a filled database has (0: none is filled)."""

    strategies: tuple[StrategyName, ...] = STRATEGIES
    shards: tuple[int, ...] = (1, 8, 64)
    lanes: tuple[int, ...] = (1, 2, 4)
    batch: tuple[int, ...] = (250,)
    commit_ms: tuple[int, ...] = (0, 1)
    history: int = 0
    hot: tuple[int, ...] = (1, 10, 100)
    seconds: float = 5.0
    warm_seconds: float = 0.5
    repeats: int = 3
    callers: int = 512
    stock: int = 500  # of the SKU that is sold out, and how many try
    tries: int = 4_000
    seconds_max: float = float("inf")  # no further round is begun that would not end in this time


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of the result. `lanes` and `batch` are 0 where a strategy has none; `hot` SKUs share the load."""

    strategy: StrategyName
    shards: int = 1
    lanes: int = 0
    batch: int = 0
    commit_ms: int = 0
    history: int = 0
    hot: int = 1


def quick_settings() -> EngineSettings:
    """Fewer and shorter measurements, so that a run ends within a minute; on a slow machine in fewer rounds."""
    return EngineSettings(
        shards=(1, 16), lanes=(DEFAULT_LANES,), commit_ms=(0,), hot=(1, 10), seconds=0.5, warm_seconds=0.2, stock=100, tries=800,
        seconds_max=40.0,
    )  # fmt: skip


def variants(settings: EngineSettings) -> list[Variant]:
    """The variants in the order in which each round measures them; none twice."""
    return list(dict.fromkeys(_variants(settings)))


def _variants(settings: EngineSettings) -> Iterator[Variant]:
    base = Variant(
        "batched",
        lanes=DEFAULT_LANES if DEFAULT_LANES in settings.lanes else settings.lanes[0],
        batch=settings.batch[0],
        hot=settings.hot[0],
    )
    for commit_ms in settings.commit_ms:
        for strategy in settings.strategies:
            if strategy not in OFFERED:
                yield Variant(strategy, commit_ms=commit_ms, hot=base.hot)
                continue
            start = base if strategy == "batched" else Variant(strategy, hot=base.hot)
            for shards in settings.shards:
                yield replace(start, shards=shards, commit_ms=commit_ms)
    if "batched" not in settings.strategies:
        return
    base = replace(base, shards=settings.shards[-1], commit_ms=settings.commit_ms[0])
    yield from (replace(base, lanes=lanes) for lanes in settings.lanes)
    yield from (replace(base, batch=batch) for batch in settings.batch)
    yield from (replace(base, hot=hot) for hot in settings.hot)
    if settings.history:
        yield replace(base, history=settings.history)
