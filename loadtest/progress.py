"""How far a crowd has come: counted from its records, handed over in a small file."""

from pathlib import Path

import msgspec

from loadtest.records import Admitted, Answered, Arrived, Ended, Joined, Record, Settled

PROGRESS_FILE = "progress.json"


class Progress(msgspec.Struct, frozen=True):
    """Shoppers at each step; `errors` counts requests that nobody decided."""

    shoppers: int
    arrived: int = 0
    joined: int = 0
    admitted: int = 0
    held: int = 0
    sold: int = 0
    refused: int = 0
    ended: int = 0
    errors: int = 0
    seconds: float = 0.0

    def encoded(self) -> bytes:
        """The progress file's content."""
        return msgspec.json.encode(self)


class Tally:
    """Counts each shopper once at each step."""

    def __init__(self, shoppers: int) -> None:
        self._shoppers = shoppers
        self._seen: dict[str, set[int]] = {}

    def count(self, record: Record) -> None:
        """Count what `record` tells."""
        match record:
            case Arrived():
                self._at("arrived", record)
            case Joined():
                self._at("joined", record)
            case Admitted():
                self._at("admitted", record)
            case Answered(hold=hold, status=status):
                self._at("held" if hold else "refused" if status == 409 else "unanswered", record)
            case Settled(outcome="paid"):
                self._at("sold", record)
            case Ended():
                self._at("ended", record)
            case _:
                pass

    @property
    def everybody_ended(self) -> bool:
        """Whether all have gone home."""
        return len(self._seen.get("ended", ())) >= self._shoppers

    def progress(self, seconds: float, errors: int) -> Progress:
        """The figures now."""
        steps = ("arrived", "joined", "admitted", "held", "sold", "refused", "ended")
        counts = {step: len(self._seen.get(step, ())) for step in steps}
        return Progress(self._shoppers, **counts, errors=errors, seconds=seconds)

    def _at(self, step: str, record: Record) -> None:
        self._seen.setdefault(step, set()).add(record.shopper)


def read_progress(folder: Path, shoppers: int) -> Progress:
    """The last progress that the crowd wrote into `folder`; zeros before the first."""
    try:
        return msgspec.json.decode((folder / PROGRESS_FILE).read_bytes(), type=Progress)
    except (OSError, msgspec.MsgspecError):
        return Progress(shoppers)
