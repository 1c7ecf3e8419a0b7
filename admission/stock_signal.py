"""What the stock tells the line: free and held units of a room's SKUs, so that waiters hear of a sell-out at once."""

from admission.line import StockSignal, stock_key
from admission.redis_bond import RedisBond

SIGNAL_SECONDS_MAX = 5.0


async def tell_stock(bond: RedisBond, room: str, free: int, held: int) -> None:
    """Say what is left for `room`; the last word counts, for five seconds. Raises LineAway."""
    await bond.run("tell_stock", bond.identity_of(room), (stock_key(room),), (str(free), str(held)))


def sold_out(signal: StockSignal | None) -> bool | None:
    """Whether everything is sold: None when the stock has said nothing for five seconds; held units may come back."""
    if signal is None or signal.age_seconds > SIGNAL_SECONDS_MAX:
        return None
    return signal.free <= 0 and signal.held <= 0


def all_held(signal: StockSignal | None) -> bool:
    """Whether nothing is free now but units that are held may come back."""
    return signal is not None and signal.age_seconds <= SIGNAL_SECONDS_MAX and signal.free <= 0 < signal.held
