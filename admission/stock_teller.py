"""How the stock talks to the line: each of its workers says how busy it is, and one at a time what is left for each room."""

from dataclasses import dataclass

from admission.line import stock_key
from admission.redis_bond import RedisBond
from admission.stock_signal import SIGNAL_SECONDS_MAX

TURN_MS = 900  # a little less than a second: whoever comes first each second tells the rooms
DESK = "stock"


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a worker of the stock is, or the busiest of all: how full its fullest lane (0 to 1), how slow its recent
    reserves (95th percentile in milliseconds, None where there were none)."""

    queue_share: float
    latency_ms: float | None


class StockTeller:
    """One worker's voice, `name`."""

    def __init__(self, bond: RedisBond, name: str) -> None:
        self._bond = bond
        self._name = name

    async def tell_load(self, load: Load) -> Load | None:
        """Say how busy this worker is: the load of the busiest when it is ours to tell the rooms, else None. Raises LineAway."""
        await self._bond.renew()
        answer = await self._bond.run(
            "tell_load",
            self._bond.identity_of(DESK),
            (f"{{{DESK}}}:load", f"{{{DESK}}}:teller"),
            (
                self._name,
                f"{load.queue_share:.4f}",
                "-" if load.latency_ms is None else f"{load.latency_ms:.1f}",
                str(round(SIGNAL_SECONDS_MAX * 1000)),
                str(TURN_MS),
            ),
        )
        if answer[0] != "turn":
            return None
        return Load(float(answer[1]), None if answer[2] == "-" else float(answer[2]))

    async def tell_stock(self, room: str, free: int, held: int, load: Load) -> None:
        """Say what is left for `room`; the last word counts, for five seconds. Raises LineAway."""
        latency = "" if load.latency_ms is None else f"{load.latency_ms:.1f}"
        await self._bond.run(
            "tell_stock",
            self._bond.identity_of(room),
            (stock_key(room),),
            (str(free), str(held), f"{load.queue_share:.4f}", latency),
        )
