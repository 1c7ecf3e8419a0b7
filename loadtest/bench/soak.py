"""`fairgate bench engine --soak`: minutes of load with an audit running and an old snapshot open, throughput over time."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field

from chassis.database import Pool
from counters.lanes import LaneSettings
from counters.rules import Done, Refused
from counters.store import Stock
from loadtest.bench.figures import Sample
from loadtest.bench.ground import Ground
from loadtest.bench.measure import Tally, closed_loop
from loadtest.strategies.offered import Offered
from loadtest.strategies.proof import read_drift, read_proof
from loadtest.strategies.schemas import real_schema
from loadtest.strategies.strategy import reservation, trial_sku

TOTAL = 1_000_000_000
WINDOW_SECONDS = 10.0
AUDIT_PAUSE_SECONDS = 1.0
NAME = "soak"


@dataclass(frozen=True, slots=True)
class SoakSettings:
    """How long, through how many lanes, over how many sub-counters, by how many callers."""

    seconds: float = 600.0
    shards: int = 8
    lanes: LaneSettings = field(default_factory=LaneSettings)
    callers: int = 512
    window_seconds: float = WINDOW_SECONDS


@dataclass(frozen=True, slots=True)
class Soaked:
    """Holds a second in each window, and what the audits found while the load ran and after it."""

    windows: tuple[float, ...]
    sample: Sample
    audits: int
    faults: tuple[str, ...]

    def document(self) -> dict[str, object]:
        """The soak as one JSON object."""
        return asdict(self) | {
            "first": self.windows[0],
            "worst": min(self.windows),
            "worst_to_first": self.worst_to_first,
        }

    @property
    def worst_to_first(self) -> float:
        """The worst window's rate over the first one's."""
        return round(min(self.windows) / self.windows[0], 3) if self.windows[0] else 0.0


async def soak(ground: Ground, settings: SoakSettings, progress: Callable[[float, float], None]) -> Soaked:
    """Run it. `progress` hears the share that is done and the rate of the last window."""
    async with ground.pool() as pool, _old_snapshot(pool):
        stock = Stock(pool, settings.lanes)
        sku = trial_sku(await Offered(stock, "batched").lay_out(NAME, TOTAL, settings.shards), NAME)
        started = time.perf_counter()
        windows: Counter[int] = Counter()
        granted = 0

        async def call(number: int) -> Done | Refused:
            nonlocal granted
            outcome = await stock.reserve(reservation(sku, str(number), batched=True))
            window = int((time.perf_counter() - started) / settings.window_seconds)
            granted += isinstance(outcome, Done)
            windows[window] += 1
            if windows[window] == 1:
                progress(
                    window * settings.window_seconds / settings.seconds, windows[window - 1] / settings.window_seconds
                )
            return outcome

        stop = asyncio.Event()
        auditor = asyncio.create_task(_audit_until(stop, pool, sku.id))
        sample = await closed_loop(call, tasks=settings.callers, seconds=settings.seconds, tally=Tally())
        stop.set()
        audits, faults = await auditor
        faults += (await read_proof(pool, real_schema(), sku.id)).faults(granted)
    whole = round(settings.seconds / settings.window_seconds)
    rates = tuple(round(windows[window] / settings.window_seconds, 1) for window in range(whole))
    return Soaked(rates, sample, audits, tuple(faults))


async def _audit_until(stop: asyncio.Event, pool: Pool, sku_id: int) -> tuple[int, list[str]]:
    """Audit the SKU again and again beside the load: how often, and what was found."""
    audits, faults = 0, list[str]()
    while not stop.is_set():
        faults += await read_drift(pool, real_schema(), sku_id)
        audits += 1
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), AUDIT_PAUSE_SECONDS)
    return audits, faults


@contextlib.asynccontextmanager
async def _old_snapshot(pool: Pool) -> AsyncIterator[None]:
    """A transaction that has looked once and stays open: nothing that dies after it can be cleaned away."""
    async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        await connection.fetchval("SELECT count(*) FROM stock.sub_counters")
        yield
