"""Opens a strategy by its name."""

from collections.abc import Sequence
from typing import get_args

from chassis.database import Pool
from counters.store import Stock
from loadtest.strategies.compared import Compared
from loadtest.strategies.offered import Offered
from loadtest.strategies.strategy import Strategy, StrategyName

STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)


async def open_strategy(name: StrategyName, pool: Pool, stock: Stock, tables: Sequence[str]) -> Strategy:
    """The strategy on `pool`'s database; one for comparison gets its schema, made of the migrations' scripts `tables`."""
    match name:
        case "batched" | "sharded":
            return Offered(stock, name)
        case _:
            compared = Compared(pool, name)
            await compared.install(tables)
            return compared
