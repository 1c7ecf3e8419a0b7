"""Tells the line each second what is left for each room, so that waiters hear of a sell-out at once."""

from admission.redis_bond import RedisBond
from admission.stock_signal import tell_stock
from counters.store import Stock
from reconciler.jobs import Report


class TellTheLine:
    """Writes free and held units of each room's SKUs into Redis; a signal older than five seconds counts as absent."""

    name = "signal"

    def __init__(self, stock: Stock, bond: RedisBond) -> None:
        self._stock = stock
        self._bond = bond

    async def run_once(self) -> Report:
        await self._bond.renew()
        rooms: dict[str, tuple[int, int]] = {}
        for level in await self._stock.levels():
            if level.room is not None:
                free, held = rooms.get(level.room, (0, 0))
                rooms[level.room] = (free + level.available, held + level.held)
        for room, (free, held) in rooms.items():
            await tell_stock(self._bond, room, free, held)
        return Report(self.name, {"rooms": len(rooms)})
