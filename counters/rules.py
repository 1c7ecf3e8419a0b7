"""What may be asked of the stock, and what it answers: bodies, settings and outcomes as frozen types (pure).

An expected refusal is a value, not an error: "sold out" is an answer.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Annotated, Literal
from uuid import UUID

import msgspec
import orjson

from chassis.http import invalid_fields
from chassis.moments import Moment, keep_in_utc
from chassis.problems import Problem
from counters.ids import quick_uuid

QUANTITY_MAX = 1_000
LINES_MAX = 100
SEATS_MAX = 50_000
TOTAL_MAX = 1_000_000_000

# Patterns end with END: a lone `$` would let a newline pass at the end, and mean something else in JSON Schema.
END = r"$(?!\n)"
PLAIN = r"^[^\x00-\x1f\x7f]+" + END  # Postgres keeps no NUL, and a control character in a name helps nobody

# A rule of JSON Schema that the type cannot say; sum_lines and ConfirmBody judge it.
UNIQUE = {"uniqueItems": True}

SKU_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
SkuName = Annotated[str, msgspec.Meta(pattern=f"^{SKU_NAME.pattern}{END}")]
RoomName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,39}" + END)]
SeatName = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=PLAIN)]
Fence = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=86_400)]

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=PLAIN)]

# Where a seat is drawn, in units of the hall's own; so bounded that four bytes keep it.
Coordinate = Annotated[float, msgspec.Meta(ge=-1_000_000, le=1_000_000)]

Refusal = Literal[
    "key-reused",
    "not-on-sale",
    "other-room",
    "sold-out",
    "insufficient-stock",
    "seat-taken",
    "no-such-seat",
    "buyer-limit",
    "buyer-missing",
    "not-found",
    "not-in-hold",
    "stale-fence",
    "hold-expired",
    "hold-released",
    "hold-paying",
    "hold-sold",
    "hold-not-paying",
    "extension-limit",
    "fixed",
    "seats-missing",
    "below-commitments",
    "seated",
    "too-many",
]


@dataclass(frozen=True, slots=True)
class Done:
    """The verb had its effect, now or (`replayed`) when it was first asked; `document` is the JSON text to answer."""

    document: str
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The verb had no effect; `facts` are numbers a caller may act on."""

    code: Refusal
    facts: dict[str, object] = field(default_factory=dict)


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Units of a fungible SKU, or named seats of a seated one."""

    sku: SkuName
    quantity: Annotated[int, msgspec.Meta(ge=1, le=QUANTITY_MAX)] | None = None
    seats: (
        Annotated[tuple[SeatName, ...], msgspec.Meta(min_length=1, max_length=LINES_MAX, extra_json_schema=UNIQUE)]
        | None
    ) = None


class ReserveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """POST /v1/holds. `buyer` is for the shop, where no pass is shown."""

    lines: Annotated[tuple[Line, ...], msgspec.Meta(min_length=1, max_length=LINES_MAX)]
    buyer: Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=PLAIN)] | None = None


class FenceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /v1/holds/{id}/release."""

    fence: Fence


class ConfirmBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """POST /v1/holds/{id}/confirm. `lines`: the part of the hold that is sold, the rest returns. `reacquire`: where the hold
    has expired, take its units again if they are still free."""

    fence: Fence
    lines: Annotated[tuple[Line, ...], msgspec.Meta(min_length=1, max_length=LINES_MAX)] | None = None
    reacquire: bool = False

    def checked(self) -> "ConfirmBody":
        """This body. Raises Problem invalid where a line names neither or both of quantity and seats, or a seat again."""
        errors: list[tuple[str, str]] = []
        named: set[tuple[str, str]] = set()
        for index, line in enumerate(self.lines or ()):
            if (line.quantity is None) == (line.seats is None):
                errors.append((f"/lines/{index}", "name either a quantity or seats"))
            seats = [(line.sku, seat) for seat in line.seats or ()]
            if len(named.union(seats)) < len(named) + len(seats):
                errors.append((f"/lines/{index}/seats", "names a seat twice"))
            named.update(seats)
        if errors:
            raise invalid_fields(errors)
        return self


class CancelBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /v1/sales/{id}/cancel."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=PLAIN)]


class PayingBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /v1/holds/{id}/paying."""

    fence: Fence
    until: Moment | None = None

    def __post_init__(self) -> None:
        keep_in_utc(self, "until")


class ExtendBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /v1/holds/{id}/extend."""

    fence: Fence
    seconds: Seconds | None = None


class ResolveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST /admin/holds/{id}/resolve: what a person found out about a payment."""

    outcome: Literal["paid", "unpaid"]
    reason: Reason


class Seat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One seat of a hall: its name, and where it is."""

    seat: SeatName
    section: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=PLAIN)]
    row: Annotated[str, msgspec.Meta(min_length=1, max_length=16, pattern=PLAIN)]
    number: Annotated[int, msgspec.Meta(ge=0, le=100_000)]
    tier: Annotated[str, msgspec.Meta(min_length=1, max_length=32, pattern=PLAIN)] | None = None
    x: Coordinate | None = None
    y: Coordinate | None = None
    blocked: bool = False

    def __post_init__(self) -> None:
        for axis in ("x", "y"):  # a hall is drawn to thousandths at most; smaller figures would not fit four bytes
            place: float | None = getattr(self, axis)
            if place is not None:
                msgspec.structs.force_setattr(self, axis, round(place, 3))


class Oversell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether units may be sold that are not there yet: `allowance` of them where the policy is bounded, else none."""

    policy: Literal["forbid", "bounded"] = "forbid"
    allowance: Annotated[int, msgspec.Meta(ge=0, le=TOTAL_MAX)] = 0


class SkuSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """PUT /admin/skus/{sku}. `total` of a seated SKU is the number of its seats and may be left out."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=PLAIN)]
    kind: Literal["fungible", "seated"] = "fungible"
    state: Literal["draft", "on_sale", "halted", "ended"] = "on_sale"
    total: Annotated[int, msgspec.Meta(ge=0, le=TOTAL_MAX)] | None = None
    shards: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    hold_seconds: Seconds = 300
    hold_seconds_max: Seconds = 900
    extensions_max: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    payment_seconds_max: Seconds = 900
    buyer_max: Annotated[int, msgspec.Meta(ge=1, le=QUANTITY_MAX)] | None = None
    limit_group: Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=PLAIN)] | None = None
    oversell: Oversell = Oversell()
    strategy: Literal["sharded", "batched"] = "batched"
    room: RoomName | None = None
    on_sale_at: Moment | None = None
    off_sale_at: Moment | None = None
    seats: Annotated[tuple[Seat, ...], msgspec.Meta(max_length=SEATS_MAX)] | None = None

    def __post_init__(self) -> None:
        keep_in_utc(self, "on_sale_at", "off_sale_at")

    def checked(self) -> "SkuSettings":
        """These settings with `total` filled in. Raises Problem invalid for relations that cannot hold."""
        errors: list[tuple[str, str]] = []
        total = self.total
        if self.kind == "seated":
            if self.shards != 1:
                errors.append(("/shards", "a seated SKU has seats, not sub-counters"))
            if self.oversell.policy != "forbid":
                errors.append(("/oversell/policy", "a seat is never sold twice: a seated SKU forbids it"))
            if self.seats is not None:
                total = total if total is not None else len(self.seats)
                if total != len(self.seats):
                    errors.append(("/total", f"is {total}, but there are {len(self.seats)} seats"))
                if len({seat.seat for seat in self.seats}) < len(self.seats):
                    errors.append(("/seats", "names a seat twice"))
        elif self.seats is not None:
            errors.append(("/seats", "a fungible SKU has no seats"))
        if total is None:
            errors.append(("/total", "is missing"))
        if self.oversell.policy == "forbid" and self.oversell.allowance:
            errors.append(("/oversell/allowance", "is for the policy bounded only"))
        if self.hold_seconds > self.hold_seconds_max:
            errors.append(("/hold_seconds", "must not be longer than hold_seconds_max"))
        if self.on_sale_at is not None and self.off_sale_at is not None and self.off_sale_at <= self.on_sale_at:
            errors.append(("/off_sale_at", "must be later than on_sale_at"))
        if errors:
            raise invalid_fields(errors)
        return msgspec.structs.replace(self, total=total)


class Want(msgspec.Struct, frozen=True):
    """One SKU's part of a cart, the lines of a SKU summed."""

    sku_id: int
    quantity: int
    seats: tuple[str, ...] | None


class Keyed(msgspec.Struct, frozen=True):
    """An idempotency key with what it is bound to: who asks for which operation, and the body's fingerprint."""

    scope: str
    key: str
    fingerprint: bytes

    @property
    def slot(self) -> UUID:
        """What the key's record is found by: 128 bits of SHA-256 over scope and key, neither of which has a newline."""
        return quick_uuid(hashlib.sha256(f"{self.scope}\n{self.key}".encode()).digest()[:16])


class Reservation(msgspec.Struct, frozen=True):
    """One reserve, read and checked: `wants` by SKU, the first line's SKU leading."""

    lead: int
    wants: tuple[Want, ...]
    lines: tuple[Line, ...]
    keyed: Keyed
    actor: str
    owner: str | None
    buyer: str | None
    room: str | None
    batched: bool = True  # the SKU's strategy

    @property
    def lines_json(self) -> str:
        return msgspec.json.encode(self.lines).decode()

    @property
    def wants_json(self) -> str:
        return orjson.dumps(
            [
                {"sku_id": want.sku_id, "quantity": want.quantity}
                if want.seats is None
                else {"sku_id": want.sku_id, "seats": list(want.seats)}
                for want in self.wants
            ]
        ).decode()


class HoldName(msgspec.Struct, frozen=True):
    """A hold's id with the SKU number that it carries."""

    id: UUID
    sku_id: int


@dataclass(frozen=True, slots=True)
class SaleName:
    """A sale's id with the SKU number that it carries."""

    id: UUID
    sku_id: int


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One confirm, read and checked: of the whole hold, or of the part that `lines` name."""

    hold: HoldName
    fence: int
    caller: str
    keyed: Keyed
    lines: tuple[Line, ...] | None
    reacquire: bool

    @property
    def lines_json(self) -> str | None:
        return None if self.lines is None else msgspec.json.encode(self.lines).decode()


# Bare, or quoted as an RFC 8941 string; a quoted key means the same as the bare one.
KEY_HEADER = r"""^([!#-~][!-~]{0,254}|"([!#-\[\]-~]|\\["\\]){1,255}")""" + END
_KEY_HEADER = re.compile(KEY_HEADER)


def read_key(header: str | None) -> str:
    """The Idempotency-Key, bare or quoted. Raises Problem key-missing or malformed."""
    if not header:
        raise Problem("key-missing", "Send an Idempotency-Key: any string of your own, the same for every retry.")
    if not _KEY_HEADER.match(header):
        raise Problem("malformed", "An Idempotency-Key has 1 to 255 visible ASCII characters, bare or in quotes.")
    return re.sub(r"\\(.)", r"\1", header[1:-1]) if header[0] == '"' else header


def fingerprint(body: object) -> bytes:
    """SHA-256 of the body in canonical form: two spellings of one request are the same request."""
    return hashlib.sha256(msgspec.json.encode(body, order="deterministic")).digest()
