"""The one interface of all strategies, and what each is asked for: the same hold, under a key."""

from dataclasses import dataclass
from typing import Literal, Protocol

from counters.rules import Done, HoldName, Keyed, Line, Refused, Reservation, Want, fingerprint
from loadtest.strategies.schemas import Schema

StrategyName = Literal["naive", "cas-row", "for-update", "skip-locked", "sharded", "batched"]
OFFERED: tuple[StrategyName, ...] = ("sharded", "batched")
COMPARED: tuple[StrategyName, ...] = ("naive", "cas-row", "for-update", "skip-locked")


@dataclass(frozen=True, slots=True)
class TrialSku:
    """A fungible SKU that strategies are tried on, with what every reserve of `quantity` units of it says."""

    id: int
    name: str
    quantity: int
    wants: tuple[Want, ...]
    lines: tuple[Line, ...]
    fingerprint: bytes


class Strategy(Protocol):
    """One way to grant holds. A repeat of a key answers what the first answered, replayed."""

    @property
    def name(self) -> StrategyName: ...

    @property
    def schema(self) -> Schema:
        """Where its stock is."""

    async def lay_out(self, sku: str, total: int, shards: int) -> int:
        """Put a SKU on sale and answer its number; strategies without sub-counters pass over `shards`."""

    async def reserve(self, sku: TrialSku, key: str) -> Done | Refused:
        """Hold `sku.quantity` units, or refuse. Raises Problem busy or asyncpg's errors for what was not decided in time."""

    async def release(self, hold: HoldName, fence: int, caller: str) -> Done | Refused:
        """Give a hold's units back."""


def trial_sku(number: int, name: str, quantity: int = 1) -> TrialSku:
    """What is asked for in reserves of `quantity` units of SKU `number`."""
    lines = (Line(name, quantity),)
    return TrialSku(number, name, quantity, (Want(number, quantity, None),), lines, fingerprint([lines, None]))


def reservation(sku: TrialSku, key: str, *, batched: bool, room: str | None = None) -> Reservation:
    """A reserve by the buyer whom `buyer_of` names, with a pass of `room`."""
    buyer = buyer_of(key)
    keyed = Keyed(f"{buyer}:reserve", key, sku.fingerprint)
    return Reservation(sku.id, sku.wants, sku.lines, keyed, buyer, buyer, buyer, room, batched)


def buyer_of(key: str) -> str:
    """Each key is another buyer's."""
    return f"buyer:bench:{key}"
