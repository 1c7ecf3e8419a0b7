"""What is on the shelf: levels and seat maps for display, read from the stock at most once a second each.

Only shown, never decided upon: a buyer who picks what has just gone gets the stock's own refusal.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeVar

from fairgate.shop.stock import Reply, Stock

KEPT_SECONDS = 1.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """The free seats of one row."""

    name: str
    seats: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a hall: how many seats are free, and which, row by row."""

    name: str
    free: int
    rows: tuple[Row, ...]


class Shared(Generic[T]):
    """One reading that everybody shares who asks while it is under way or within KEPT_SECONDS after it."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._reading: asyncio.Task[T] | None = None
        self._read_at = 0.0

    async def get(self) -> T:
        """The reading that is young enough or under way, else a new one. Raises what the reading raised."""
        if self._reading is None or (self._reading.done() and time.monotonic() - self._read_at > KEPT_SECONDS):
            self._reading = asyncio.create_task(self._read_anew())
        return await asyncio.shield(self._reading)

    async def _read_anew(self) -> T:
        try:
            return await self._read()
        finally:
            self._read_at = time.monotonic()


class Shelf:
    """Levels and sections of the SKUs this shop sells, each reading shared by everybody who asks within a second."""

    def __init__(self, stock: Stock, skus: tuple[str, ...]) -> None:
        self._stock = stock
        self._skus = skus
        self._levels: Shared[list[dict[str, Any]]] = Shared(self._read_levels)
        self._sections = {sku: Shared(partial(self._read_sections, sku)) for sku in skus}

    async def levels(self) -> list[dict[str, Any]]:
        """The stock's documents of the SKUs that exist, in the shop's order."""
        return await self._levels.get()

    async def sections(self, sku: str) -> list[Section]:
        """The sections of a seated SKU in the map's order; empty for what this shop does not sell or is not seated."""
        shared = self._sections.get(sku)
        return await shared.get() if shared is not None else []

    async def _read_levels(self) -> list[dict[str, Any]]:
        replies = await asyncio.gather(*(self._stock.sku(sku) for sku in self._skus))
        return [reply.document for reply in replies if reply.granted]

    async def _read_sections(self, sku: str) -> list[Section]:
        return sections_of(await self._stock.seats(sku))


def sections_of(reply: Reply) -> list[Section]:
    """The free seats of a seat map by section and row, in the map's order; empty when the SKU has no map."""
    if not reply.granted:
        return []
    sections = []
    for name, in_section in groupby(reply.document["seats"], key=lambda seat: seat["section"]):
        by_row = groupby((seat for seat in in_section if seat["state"] == "available"), key=lambda seat: seat["row"])
        rows = tuple(Row(row, tuple(seats)) for row, seats in by_row)
        sections.append(Section(name, sum(len(row.seats) for row in rows), rows))
    return sections
