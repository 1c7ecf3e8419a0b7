"""SKU names to what never changes about them: number, kind. Found once, remembered; rules are read in each verb."""

from collections.abc import Iterable
from dataclasses import dataclass

from chassis.problems import Problem
from counters.store import Stock

REMEMBERED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Item:
    """What a SKU's name stands for, for ever."""

    id: int
    kind: str


class Catalog:
    """Remembers SKUs that exist; a name that does not exist is asked for each time."""

    def __init__(self, stock: Stock) -> None:
        self._stock = stock
        self._items: dict[str, Item] = {}

    async def item(self, name: str) -> Item:
        """The SKU behind `name`. Raises Problem not-found."""
        item = self._items.get(name)
        if item is None:
            sku = await self._stock.find_sku(name)
            if sku is None:
                raise Problem("not-found", f"There is no SKU {name}.")
            item = Item(sku.id, sku.kind)
            if len(self._items) < REMEMBERED_MAX:
                self._items[name] = item
        return item

    async def items(self, names: Iterable[str]) -> dict[str, Item]:
        """The SKUs behind several names. Raises Problem not-found for the first that does not exist."""
        return {name: await self.item(name) for name in names}
