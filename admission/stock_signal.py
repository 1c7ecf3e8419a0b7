"""What the stock tells the line of a room's SKUs, so that waiters hear of a sell-out at once and nobody is called for nothing."""

from dataclasses import dataclass

SIGNAL_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True)
class StockSignal:
    """The stock's last word: free and held units, how full its fullest lane is (0 to 1), and how slow recent reserves were
    (95th percentile; None where there were none)."""

    free: int
    held: int
    age_seconds: float
    queue_share: float = 0.0
    latency_ms: float | None = None

    @property
    def fresh(self) -> bool:
        """Whether it still counts; an older one is as good as none."""
        return self.age_seconds <= SIGNAL_SECONDS_MAX


def read_signal(
    free: str, held: str, age_ms: int | str, queue_share: str = "", latency_ms: str = ""
) -> StockSignal | None:
    """The signal in what Redis holds of it; '' stands for what was never said."""
    if age_ms == "":
        return None
    return StockSignal(
        int(free),
        int(held),
        int(age_ms) / 1000,
        float(queue_share or 0),
        float(latency_ms) if latency_ms else None,
    )


def sold_out(signal: StockSignal | None) -> bool | None:
    """Whether everything is sold: None when the stock has said nothing for five seconds; held units may come back."""
    if signal is None or not signal.fresh:
        return None
    return signal.free <= 0 and signal.held <= 0


def all_held(signal: StockSignal | None) -> bool:
    """Whether nothing is free now but units that are held may come back."""
    return signal is not None and signal.age_seconds <= SIGNAL_SECONDS_MAX and signal.free <= 0 < signal.held
