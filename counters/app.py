"""The stock API as a process: composition only."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.routing import Route

from admission.redis_bond import RedisBond
from admission.stock_teller import StockTeller
from admission.trust import Trust
from chassis.database import STORE_AWAY, Pool, make_pool
from chassis.keys import ApiKeys
from chassis.loops import Loop
from chassis.settings import Settings
from chassis.shell import App, create_app
from counters.adjust_api import AdjustApi
from counters.adjustments import Adjustments
from counters.admin_api import AdminApi
from counters.api import StockApi
from counters.callers import Callers
from counters.catalog import Catalog
from counters.functions import verbs_schema
from counters.history import History
from counters.history_api import HistoryApi
from counters.hot import HotVerbs
from counters.lanes import LaneSettings
from counters.openapi import openapi_route
from counters.signal import StockSignals
from counters.store import Stock

TRUST_INTERVAL_SECONDS = 1.0
SIGNAL_INTERVAL_SECONDS = 1.0


def create(settings: Settings | None = None) -> App:
    """The app of `fairgate serve stock`."""
    settings = settings or Settings.from_environment()
    pool = make_pool(settings)
    keys = ApiKeys(pool)
    trust = Trust(pool)
    stock = Stock(pool, LaneSettings(settings.stock_lanes, settings.stock_batch_max, settings.stock_queue_max))
    callers = Callers(keys, trust)
    catalog = Catalog(stock)
    bond = RedisBond(settings.redis_url)
    signals = StockSignals(stock, StockTeller(bond, secrets.token_hex(8)))
    loops = [
        Loop("trust", trust.refresh, TRUST_INTERVAL_SECONDS),
        Loop("signal", signals.run_once, SIGNAL_INTERVAL_SECONDS),
    ]

    async def schema() -> None:
        await migrated(pool)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with pool:
            # A pass shown to a process that knows no keys yet would be refused; while Postgres is away the loop goes on.
            with contextlib.suppress(*STORE_AWAY):
                await trust.refresh()
            running = asyncio.gather(*(loop.run(stop) for loop in loops))
            yield
            stop.set()
            await running
            await bond.close()

    return create_app(
        [*StockApi(stock, callers, catalog).routes(), *operator_routes(stock, pool, keys), openapi_route(settings)],
        name="stock",
        settings=settings,
        lifespan=lifespan,
        checks={"schema": schema},
        hot=HotVerbs(stock, callers, catalog).calls(),
        hot_at_once_max=settings.stock_at_once_max,
    )


def operator_routes(stock: Stock, pool: Pool, keys: ApiKeys) -> list[Route]:
    """Everything below /admin."""
    history = History(pool)
    return [
        *AdminApi(stock, history, keys).routes(),
        *HistoryApi(stock, history, keys).routes(),
        *AdjustApi(stock, Adjustments(pool), keys).routes(),
    ]


async def migrated(pool: Pool) -> None:
    """Raise ConnectionError while Postgres is away or lacks the functions that this process calls."""
    if await pool.fetchval("SELECT to_regnamespace($1)", verbs_schema()) is None:
        raise ConnectionError("the database lacks this version's functions: run `fairgate migrate`")
