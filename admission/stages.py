"""A draw's stages, each with the moment at which it was recorded, before the next one began (pure)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import asyncpg
import msgspec

from admission.draw import SECRET_BYTES
from admission.room_settings import Beacon
from chassis.http import timestamp

BEACON_SECONDS_MAX = 60.0  # how long after the close a draw waits that may go on without its beacon
Stage = Literal["committed", "entries-closed", "root", "beacon", "drawn"]


@dataclass(frozen=True, slots=True)
class Draw:
    """What stands of a draw; None is still to come. `material` is what the places' key is made of: secret ‖ root ‖ beacon value.

    `prequeue_at` is when the pre-queue was to begin, as that stood at the close of entries, if it lay behind the commitment.
    """

    commitment: bytes
    committed_at: datetime
    beacon: Beacon | None
    last_entry: int | None = None
    entries_closed_at: datetime | None = None
    root: bytes | None = None
    root_at: datetime | None = None
    beacon_value: bytes | None = None
    beacon_at: datetime | None = None
    beacon_missed: bool = False
    entries: int | None = None
    material: bytes | None = None
    drawn_at: datetime | None = None
    prequeue_at: datetime | None = None

    @property
    def secret(self) -> bytes | None:
        """The secret, once it is revealed."""
        return None if self.material is None else self.material[:SECRET_BYTES]

    @property
    def stage(self) -> Stage:
        """The last stage that stands."""
        if self.drawn_at is not None:
            return "drawn"
        if self.beacon_at is not None:
            return "beacon"
        if self.root is not None:
            return "root"
        return "committed" if self.entries_closed_at is None else "entries-closed"

    def document(self) -> dict[str, object]:
        """The stages as the status document and the proof show them: bytes in hex, moments in RFC 3339."""
        return {
            "stage": self.stage,
            "commitment": self.commitment.hex(),
            "committed_at": timestamp(self.committed_at),
            "prequeue_at": _moment(self.prequeue_at),
            "beacon": None if self.beacon is None else msgspec.to_builtins(self.beacon),
            "last_entry": self.last_entry,
            "entries_closed_at": _moment(self.entries_closed_at),
            "root": _hex(self.root),
            "root_at": _moment(self.root_at),
            "beacon_value": _hex(self.beacon_value),
            "beacon_at": _moment(self.beacon_at),
            "beacon_missed": self.beacon_missed,
            "entries": self.entries,
            "secret": _hex(self.secret),
            "drawn_at": _moment(self.drawn_at),
        }


def draw_of(row: asyncpg.Record) -> Draw:
    """The draw in a row of read_rooms.sql or read_draw.sql. Raises msgspec.ValidationError for a beacon of another form."""
    beacon = row["beacon"]
    return Draw(
        commitment=row["commitment"],
        committed_at=row["committed_at"],
        beacon=None if beacon is None else msgspec.json.decode(beacon, type=Beacon),
        last_entry=row["last_entry"],
        entries_closed_at=row["entries_closed_at"],
        root=row["root"],
        root_at=row["root_at"],
        beacon_value=row["beacon_value"],
        beacon_at=row["beacon_at"],
        beacon_missed=row["beacon_missed"],
        entries=row["entries"],
        material=row["secret"],
        drawn_at=row["closed_at"],
        prequeue_at=row["prequeue_at"],
    )


def beacon_json(beacon: Beacon | None) -> str | None:
    """A beacon as Postgres keeps it."""
    return None if beacon is None else msgspec.json.encode(beacon).decode()


def beacon_words(beacon: Beacon | None) -> str:
    """How a commitment names its beacon: '' for none."""
    return "" if beacon is None else f"{beacon.source}\n{beacon.round}\n{beacon.fallback}\n"


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def _moment(at: datetime | None) -> str | None:
    return None if at is None else timestamp(at)
