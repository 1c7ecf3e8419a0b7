"""What shoppers were told, one JSON object a line: the crowd's own memory, against which the service is judged.

Times: `at` is Unix seconds by the wall clock, `mono` and `sent` are seconds of the machine's monotonic clock, which all
processes of one machine share.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Literal

import msgspec

FILE_PATTERN = "shoppers-*.jsonl"


class Told(msgspec.Struct, frozen=True, kw_only=True, tag_field="record"):
    """What every record has: which shopper of its process, and when."""

    shopper: int
    at: float = msgspec.field(default_factory=time.time)
    mono: float = msgspec.field(default_factory=time.monotonic)


class Arrived(Told, frozen=True, tag="arrived"):
    """A shopper set out, to behave in one way."""

    manner: str


class Joined(Told, frozen=True, tag="joined"):
    """A ticket was given: an entry of the draw, or a number behind it."""

    ticket_id: str
    entry: int | None
    number: int | None


class Placed(Told, frozen=True, tag="placed"):
    """A place was shown."""

    ticket_id: str
    state: str
    place: int | None


class Admitted(Told, frozen=True, tag="admitted"):
    """A pass was given, for the first time or once more."""

    ticket_id: str
    jti: str
    expires_at: str


class Answered(Told, frozen=True, tag="answered"):
    """A reserve was answered: a hold, or a refusal with its code. Status 0: no answer came."""

    key: str
    sent: float
    status: int
    code: str = ""
    hold: str = ""
    fence: int = 0
    units: int = 0
    seats: tuple[str, ...] = ()
    expires_at: str = ""
    next_release_at: str = ""
    replayed: bool = False


class Settled(Told, frozen=True, tag="settled"):
    """A payment was answered: paid with its sale, not paid, or refused with a code."""

    hold: str
    sent: float
    status: int
    outcome: Literal["paid", "declined", "cancelled", "refunded", "refused"]
    code: str = ""
    sale: str = ""


class GaveBack(Told, frozen=True, tag="gave-back"):
    """A release was answered."""

    hold: str
    status: int


class Ended(Told, frozen=True, tag="ended"):
    """A shopper's walk was over."""

    outcome: str


Record = Arrived | Joined | Placed | Admitted | Answered | Settled | GaveBack | Ended


class RecordLog:
    """Appends records to one file, each in one write, so that a killed process tears at most its last line."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)
        self._encoder = msgspec.json.Encoder()

    def append(self, record: Record) -> None:
        """Write one line."""
        self._file.write(self._encoder.encode(record) + b"\n")

    def close(self) -> None:
        """Close the file; appending afterwards is a mistake."""
        self._file.close()

    def __enter__(self) -> "RecordLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_records(folder: Path) -> list[Record]:
    """All records in `folder`, in the order of the monotonic clock. Raises ValueError for a line that is none."""
    records = [record for file in sorted(folder.glob(FILE_PATTERN)) for record in _read_file(file)]
    return sorted(records, key=lambda record: record.mono)


def _read_file(file: Path) -> Iterable[Record]:
    decoder = msgspec.json.Decoder(Record)
    lines = file.read_bytes().split(b"\n")
    torn = lines.pop()  # empty, unless the process was killed while it wrote
    for number, line in enumerate(lines, 1):
        try:
            yield decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{file.name}, line {number}, is no record: {error}") from None
    if torn:
        try:
            yield decoder.decode(torn)
        except msgspec.MsgspecError:
            return
