"""Ids of holds, sales and operations: UUIDv7 (RFC 9562, section 5.7); the last 32 bits of a hold or sale are the number of
its first SKU.

An id names and gives no right: its random bits keep ids apart, nobody has to be unable to guess them.
"""

import random
import time
from datetime import UTC, datetime
from uuid import UUID

from asyncpg.pgproto import pgproto

SKU_BITS = 32


def new_operation_id() -> UUID:
    """A time-ordered id with 74 random bits."""
    return _uuid7(random.getrandbits(12), random.getrandbits(62))


def new_hold_id(sku_id: int) -> UUID:
    """A time-ordered id whose last 32 bits are `sku_id`, with 42 random bits before them."""
    return _uuid7(random.getrandbits(12), random.getrandbits(62 - SKU_BITS) << SKU_BITS | sku_id)


def new_sale_id(sku_id: int) -> UUID:
    """An id like a hold's: a sale names its first SKU too."""
    return new_hold_id(sku_id)


def sku_of_hold(hold_id: UUID) -> int:
    """The number of the first SKU of the hold, or of the sale, that has this id."""
    return hold_id.int & (1 << SKU_BITS) - 1


def moment_of(identity: UUID) -> datetime:
    """When an id of ours was made, to the millisecond, by the clock of whoever made it."""
    return datetime.fromtimestamp((identity.int >> 80) / 1000, UTC)


def _uuid7(high: int, low: int) -> UUID:
    milliseconds = time.time_ns() // 1_000_000
    number = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | high << 64 | 0b10 << 62 | low
    return quick_uuid(number.to_bytes(16, "big"))


def quick_uuid(raw: bytes) -> UUID:
    """The UUID of these 16 bytes, as the driver makes them: ten times as fast as the standard library's, else the same."""
    return pgproto.UUID(raw)
