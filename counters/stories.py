"""What happened to a hold, in sentences that a shop's support can read to a buyer (pure)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Literal
from uuid import UUID

import msgspec

from counters.ids import moment_of
from counters.rules import Line

State = Literal["held", "paying", "sold", "released", "expired", "cancelled"]


class Move(msgspec.Struct, frozen=True):
    """Units of one SKU that one operation took, sold or gave back."""

    operation: UUID
    at: datetime
    verb: str
    actor: str
    reason: str | None
    sku: str
    quantity: int


class HoldFacts(msgspec.Struct, frozen=True):
    """A hold's row; `first_until` is its first deadline, while it is known."""

    id: UUID
    state: State
    fence: int
    expires_at: datetime
    extensions: int
    extended_by: UUID | None
    paying_started_at: datetime | None
    paying_until: datetime | None
    stuck_since: datetime | None
    actor: str
    owner: str | None
    buyer: str | None
    lines: tuple[Line, ...]
    quantity: int
    backordered: int
    created_at: datetime
    ended_at: datetime | None
    first_until: datetime | None

    def state_at(self, now: datetime) -> State:
        """The state as of `now`: a hold past its deadline reads as expired, swept or not."""
        return "expired" if self.state == "held" and self.expires_at <= now else self.state


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened, by whom (None where nobody had to act), in a sentence without its time."""

    at: datetime
    by: str | None
    what: str


@dataclass(frozen=True, slots=True)
class Story:
    """A hold with all that happened to it, oldest first; `now_answers` says what it would answer now."""

    hold: HoldFacts
    sku: str
    state: State
    sale: UUID | None
    events: tuple[Event, ...]
    now_answers: str


def tell_story(hold: HoldFacts, sku: str, moves: Sequence[Move], sale: UUID | None, now: datetime) -> Story:
    """The story of `hold`; `sku` is the name of its first SKU, `moves` stand in ledger order."""
    events = sorted([*_moved(hold, moves, sale), *_passed(hold, now)], key=lambda event: event.at)
    state = hold.state_at(now)
    return Story(hold, sku, state, sale, tuple(events), _answers(hold, state))


def clock(at: datetime, day: datetime) -> str:
    """The time of day in UTC, with its date where that is not `day`'s."""
    at = at.astimezone(UTC)
    return f"{at:%H:%M:%S}" if at.date() == day.astimezone(UTC).date() else f"{at:%Y-%m-%d %H:%M:%S}"


def _moved(hold: HoldFacts, moves: Sequence[Move], sale: UUID | None) -> Iterator[Event]:
    """What moved units: the ledger tells it."""
    for _, alike in groupby(moves, key=lambda move: (move.operation, move.verb)):
        parts = list(alike)
        first = parts[0]
        units = ", ".join(f"{part.quantity} × {part.sku}" for part in parts)
        reason = f" ({first.reason})" if first.reason else ""
        match first.verb:
            case "reserve":
                what = _reserved(hold, first, units)
            case "confirm":
                numbered = f", sale {sale}" if sale is not None else ""
                what = f"sold to the buyer as {first.actor} said{numbered}: {units}{reason}"
            case "release":
                what = f"released by {first.actor}: {units} went back to stock{reason}"
            case "expire":
                what = f"ended by {first.actor} because its deadline had passed: {units} went back to stock"
            case "reacquire":
                what = f"taken again for {first.actor} after it had expired: {units}, under a new fence"
            case "cancel":
                what = f"its sale was cancelled by {first.actor}: {units} went back to stock{reason}"
            case other:
                what = f"{other} by {first.actor}: {units}{reason}"
        yield Event(first.at, first.actor, what)


def _reserved(hold: HoldFacts, first: Move, units: str) -> str:
    buyer = f" for {hold.buyer}" if hold.buyer and hold.buyer != first.actor else ""
    until = hold.first_until or (None if hold.extensions else hold.expires_at)
    deadline = f", until {clock(until, hold.created_at)}" if until else ""
    beyond = f"; {hold.backordered} of them are promised beyond the stock" if hold.backordered else ""
    return f"reserved by {first.actor}{buyer}: {units}{deadline}{beyond}"


def _passed(hold: HoldFacts, now: datetime) -> Iterator[Event]:
    """What moved no units: the hold's row tells it."""
    deadline = clock(hold.expires_at, hold.created_at)
    if hold.extended_by is not None:
        times = "once" if hold.extensions == 1 else f"{hold.extensions} times in all"
        yield Event(moment_of(hold.extended_by), None, f"extended ({times}): its deadline became {deadline}")
    if hold.paying_started_at is not None and hold.paying_until is not None:
        until = clock(hold.paying_until, hold.created_at)
        yield Event(hold.paying_started_at, None, f"its payment started: it waits for it until {until}")
    if hold.stuck_since is not None:
        yield Event(hold.stuck_since, None, "nobody could say whether it was paid: it waits for a person")
    if hold.state_at(now) == "expired":
        yield Event(hold.expires_at, None, "its deadline passed: its units are free for others")


def _answers(hold: HoldFacts, state: State) -> str:
    """What a confirm or a release with the hold's fence would hear in `state`."""
    match state:
        case "held":
            until = clock(hold.expires_at, hold.created_at)
            return f"It is held until {until}: a confirm sells it, a release gives it back."
        case "paying":
            until = clock(hold.paying_until or hold.expires_at, hold.created_at)
            return (
                f"Its payment is under way until {until}: the shop's confirm sells it, its release gives it back; past "
                "that the payment provider is asked, or a person decides."
            )
        case "sold":
            return "It is sold: a confirm answers the same sale, a release is refused (hold-sold)."
        case "released":
            return "It was released: a confirm is refused (hold-released), a release answers the same again."
        case "expired":
            return (
                "It has expired: a confirm is refused (hold-expired), unless it asks to reacquire and the same units are "
                "still free; a release answers the same again."
            )
        case "cancelled":
            return "Its sale was cancelled: a confirm is refused (hold-released), a release answers the same again."
