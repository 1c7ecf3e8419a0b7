"""What the stock's tests share: SKUs, reservations and verbs on a fresh database, in few words."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import msgspec
import orjson

from chassis.database import Pool
from chassis.problems import Problem
from counters.carts import Item, sum_lines
from counters.ids import sku_of_hold
from counters.lanes import LaneSettings
from counters.rules import Done, HoldName, Keyed, Line, Refused, Reservation, Seat, SkuSettings, fingerprint
from counters.store import Disagreement, Sku, Stock

BUSY_REPEATS_MAX = 10


@dataclass(frozen=True, slots=True)
class Held:
    """A hold as its holder knows it."""

    name: HoldName
    fence: int
    document: dict[str, object]


class World:
    """One stock and its shop."""

    def __init__(self, pool: Pool, stock: Stock | None = None) -> None:
        self.pool = pool
        self.stock = stock or Stock(pool, LaneSettings(lanes=2, queue_max=5_000))

    async def fungible(self, name: str = "ticket", total: int = 10, shards: int = 4, **rules: object) -> Sku:
        """A fungible SKU on sale."""
        settings = SkuSettings(title=name, total=total, shards=shards)
        return await self._put(name, msgspec.structs.replace(settings, **rules))

    async def seated(self, name: str = "hall", rows: int = 2, seats: int = 5) -> Sku:
        """A seated SKU whose seats are A-1, A-2, … B-1, …"""
        places = tuple(
            Seat(seat=f"{row}-{number}", section="stalls", row=row, number=number)
            for row in "ABCDEFGHIJ"[:rows]
            for number in range(1, seats + 1)
        )
        return await self._put(name, SkuSettings(title=name, kind="seated", seats=places))

    async def reserve(
        self,
        *lines: Line,
        key: str | None = None,
        actor: str = "shop:box",
        buyer: str | None = None,
        room: str | None = None,
    ) -> Done | Refused:
        """Ask for `lines`, with a new key unless one is given; on a busy machine again with the same key, as shops do."""
        key = key or secrets.token_hex(8)
        for _ in range(BUSY_REPEATS_MAX):
            try:
                return await self.reserve_once(*lines, key=key, actor=actor, buyer=buyer, room=room)
            except Problem as problem:
                assert problem.code in ("busy", "key-in-flight"), problem.detail
        return await self.reserve_once(*lines, key=key, actor=actor, buyer=buyer, room=room)

    async def reserve_once(
        self,
        *lines: Line,
        key: str | None = None,
        actor: str = "shop:box",
        buyer: str | None = None,
        room: str | None = None,
    ) -> Done | Refused:
        """Ask for `lines`, with a new key unless one is given. Raises Problem busy or key-in-flight."""
        return await self.stock.reserve(await self.reservation(*lines, key=key, actor=actor, buyer=buyer, room=room))

    async def reservation(
        self,
        *lines: Line,
        key: str | None = None,
        actor: str = "shop:box",
        buyer: str | None = None,
        room: str | None = None,
    ) -> Reservation:
        """What the API makes of a request for `lines`."""
        skus = {line.sku: await self.stock.find_sku(line.sku) for line in lines}
        found = {name: sku for name, sku in skus.items() if sku is not None}
        return Reservation(
            lead=found[lines[0].sku].id,
            wants=sum_lines(lines, {name: Item(sku.id, sku.kind) for name, sku in found.items()}),
            lines=tuple(lines),
            keyed=reserve_key(*lines, key=key or secrets.token_hex(8), actor=actor, buyer=buyer),
            actor=actor,
            owner=None,
            buyer=buyer,
            room=room,
        )

    async def hold(self, sku: str = "ticket", quantity: int = 1, **asked: str) -> Held:
        """A hold of units that must be granted."""
        return held(await self.reserve(Line(sku, quantity), **asked))

    async def confirm(
        self,
        hold: Held,
        key: str | None = None,
        fence: int | None = None,
        lines: tuple[Line, ...] | None = None,
        reacquire: bool = False,
    ) -> Done | Refused:
        """Confirm as the shop."""
        keyed = Keyed(f"shop:box:confirm:{hold.name.id}", key or secrets.token_hex(8), b"\0" * 32)
        return await self.stock.confirm(
            hold.name, fence or hold.fence, "shop:box", keyed, lines=lines, reacquire=reacquire
        )

    async def expire(self, *holds: Held) -> None:
        """Move the deadlines of `holds` (all live ones when none are named) into the past."""
        await self.pool.execute(
            "UPDATE stock.holds SET expires_at = clock_timestamp() - interval '1 ms', created_at = created_at - interval '1 day'"
            " WHERE state = 'held' AND ($1::uuid[] = '{}' OR id = ANY ($1))",
            [hold.name.id for hold in holds],
        )

    async def faults(self) -> list[Disagreement]:
        """What an audit of every SKU finds."""
        return [fault for level in await self.stock.levels() for fault in await self.stock.audit(level)]

    async def counts(self, sku: str = "ticket") -> tuple[int, int, int]:
        """(available, held, sold) of a SKU."""
        (level,) = await self.stock.levels([sku])
        return level.available, level.held, level.sold

    async def _put(self, name: str, settings: SkuSettings) -> Sku:
        outcome = await self.stock.put_sku(name, settings.checked(), "operator:test")
        assert isinstance(outcome, Done), outcome
        sku = await self.stock.find_sku(name)
        assert sku is not None
        return sku


def reserve_key(*lines: Line, key: str, actor: str = "shop:box", buyer: str | None = None) -> Keyed:
    """The key of a reserve of `lines`, bound to its body."""
    return Keyed(f"{actor}:reserve", key, fingerprint([lines, buyer]))


def held(outcome: Done | Refused) -> Held:
    """The hold that was granted."""
    assert isinstance(outcome, Done), outcome
    document = orjson.loads(outcome.document)
    hold_id = UUID(document["id"])
    return Held(HoldName(hold_id, sku_of_hold(hold_id)), document["fence"], document)


def codes(outcomes: Sequence[Done | Refused]) -> list[str]:
    """Each outcome in a word: done, replayed, or the refusal's code."""
    return [("replayed" if o.replayed else "done") if isinstance(o, Done) else o.code for o in outcomes]


async def patiently(call: Callable[[], Awaitable[Done | Refused]]) -> Done | Refused:
    """What a shop does that hears `busy`: the same call again, until there is an answer."""
    while True:
        try:
            return await call()
        except Problem as problem:
            assert problem.code in ("busy", "key-in-flight")
