"""SKU names to what a reserve must know before it asks: number, kind, strategy. All other rules are read in the verbs."""

import time
from collections.abc import Iterable

from chassis.problems import Problem
from counters.carts import Item
from counters.store import Stock

REMEMBERED_MAX = 10_000
REMEMBERED_SECONDS = 5.0  # an operator may change a SKU's strategy


class Catalog:
    """Remembers SKUs that exist; a name that does not exist is asked for each time."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._items: dict[str, Item] = {}
        self._old_at: dict[str, float] = {}

    async def item(self, name: str) -> Item:
        """The SKU behind `name`. Raises Problem not-found."""
        return self._fresh(name) or await self._find(name)

    async def items(self, names: Iterable[str]) -> dict[str, Item]:
        """The SKUs behind several names. Raises Problem not-found for the first that does not exist."""
        return {name: self._fresh(name) or await self._find(name) for name in names}

    def _fresh(self, name: str) -> Item | None:
        """The item as remembered; where that is old, one caller asks anew while the others go on with it."""
        item = self._items.get(name)
        if item is None:
            return None
        now = time.monotonic()
        if now < self._old_at[name]:
            return item
        self._old_at[name] = now + REMEMBERED_SECONDS
        return None

    async def _find(self, name: str) -> Item:
        sku = await self._stock.find_sku(name)
        if sku is None:
            raise Problem("not-found", f"There is no SKU {name}.")
        if len(self._items) >= REMEMBERED_MAX:
            self._items.clear()
            self._old_at.clear()
        item = Item(sku.id, sku.kind, sku.settings.strategy == "batched")
        self._items[name] = item
        self._old_at[name] = time.monotonic() + REMEMBERED_SECONDS
        return item
