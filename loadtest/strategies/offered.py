"""The strategies for real sales, as the product runs them: `sharded`, a transaction for each hold, and `batched`, the lanes."""

from counters.rules import Done, HoldName, Refused, SkuSettings
from counters.store import Stock
from loadtest.strategies.schemas import Schema, real_schema
from loadtest.strategies.strategy import StrategyName, TrialSku, reservation

HOLD_SECONDS = 86_400  # nothing expires while it is measured


class Offered:
    """A SKU whose strategy is `sharded` or `batched`: the same verbs, the same rows."""

    def __init__(self, stock: Stock, name: StrategyName) -> None:
        self.schema: Schema = real_schema()
        self._stock = stock
        self._name = name
        self._batched = name == "batched"

    @property
    def name(self) -> StrategyName:
        return self._name

    async def lay_out(self, sku: str, total: int, shards: int) -> int:
        settings = SkuSettings(
            title=sku, total=total, shards=shards, hold_seconds=HOLD_SECONDS, hold_seconds_max=HOLD_SECONDS
        )
        await self._stock.put_sku(sku, settings.checked(), "operator:bench")
        made = await self._stock.find_sku(sku)
        assert made is not None, f"{sku} was put and is not there"
        return made.id

    async def reserve(self, sku: TrialSku, key: str) -> Done | Refused:
        return await self._stock.reserve(reservation(sku, key, batched=self._batched))

    async def release(self, hold: HoldName, fence: int, caller: str) -> Done | Refused:
        return await self._stock.release(hold, fence, caller)
