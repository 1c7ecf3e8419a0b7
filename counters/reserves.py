"""The road of a reserve: its lane, then the tail where the lane could not serve it; carts and seats one by one.

Units of due holds are free: where they are needed they are taken back first, once for all who wait for them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

import orjson

from chassis.problems import busy
from counters.calls import Answer, Verbs, overloaded
from counters.ids import new_hold_id, new_operation_id
from counters.lanes import WAIT_SECONDS_MAX, Lane, Lanes, full, spread
from counters.rules import Reservation, Want

ROUNDS_MAX = 8
DRY_SECONDS = 0.05
CARTS_MAX = 200  # carts that wait for their turn
CARTS_AT_ONCE = 4  # each has a connection of its own: lanes and reads need theirs

Reclaim = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Ids:
    hold: UUID
    operation: UUID


class Reserves:
    """Reserves on one database; `reclaim` ends due holds of the SKU with that number."""

    def __init__(self, verbs: Verbs, lanes: Lanes, tail: Lane, reclaim: Reclaim) -> None:
        self._verbs = verbs
        self._lanes = lanes
        self._tail = tail
        self._reclaim = reclaim
        self._reclaiming: dict[int, asyncio.Task[object]] = {}
        self._dry_until: dict[int, float] = {}
        self._carts = 0
        self._cart_turns = asyncio.Semaphore(CARTS_AT_ONCE)

    async def decide(self, wanted: Reservation) -> Answer:
        """What becomes of `wanted`; the outcomes stand in the heads of reserve.sql, reserve_tail.sql and reserve_cart.sql.

        Raises Problem busy or key-in-flight.
        """
        ids = _Ids(new_hold_id(wanted.lead), new_operation_id())
        (first, *others) = wanted.wants
        if others or first.seats is not None:
            return await self._rounds(wanted, lambda: self._cart(wanted, ids))
        if not self._was_dry(wanted.lead):
            answer = await self._in_lane(wanted, first, ids)
            if answer.outcome != "tail":
                return answer
        answer = await self._rounds(wanted, lambda: self._in_tail(wanted, first, ids))
        if answer.outcome == "sold-out":
            self._dry_until[wanted.lead] = time.monotonic() + DRY_SECONDS
        return answer

    async def _in_lane(self, wanted: Reservation, want: Want, ids: _Ids) -> Answer:
        slot = wanted.keyed.slot
        arguments = (
            ids.hold, slot, wanted.keyed.fingerprint, spread(slot), want.quantity, wanted.lines_json, wanted.room,
            wanted.actor, wanted.owner, wanted.buyer, ids.operation,
        )  # fmt: skip
        if wanted.batched:
            return await self._lanes.ask("reserve", wanted.lead, slot, arguments)
        return await self._verbs.decide("reserve", wanted.lead, *([argument] for argument in arguments))

    async def _in_tail(self, wanted: Reservation, want: Want, ids: _Ids) -> Answer:
        slot = wanted.keyed.slot
        arguments = (
            ids.hold, slot, wanted.keyed.fingerprint, want.quantity, wanted.lines_json, wanted.room,
            wanted.actor, wanted.owner, wanted.buyer, ids.operation,
        )  # fmt: skip
        return await self._tail.ask("reserve_tail", wanted.lead, slot, arguments)

    async def _cart(self, wanted: Reservation, ids: _Ids) -> Answer:
        if self._carts >= CARTS_MAX:
            raise full("reserve_cart")
        self._carts += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await self._cart_turns.acquire()
        except TimeoutError:
            raise overloaded() from None
        finally:
            self._carts -= 1
        try:
            return await self._verbs.decide(
                "reserve_cart", wanted.lead, ids.hold, wanted.wants_json, wanted.lines_json, wanted.room,
                wanted.actor, wanted.owner, wanted.buyer, wanted.keyed.slot, wanted.keyed.fingerprint, ids.operation,
            )  # fmt: skip
        finally:
            self._cart_turns.release()

    async def _rounds(self, wanted: Reservation, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask until it is decided; between, units of due holds come back."""
        for _ in range(ROUNDS_MAX):
            answer = await ask()
            if answer.outcome == "reclaim":
                for sku_id in orjson.loads(answer.text) if answer.text else [want.sku_id for want in wanted.wants]:
                    await self._take_back(sku_id)
            elif answer.outcome != "again":
                return answer
        raise busy("Units are coming back and going again faster than this request could be decided. Try again.")

    async def _take_back(self, sku_id: int) -> None:
        """End due holds of the SKU, together with whoever else waits for that."""
        task = self._reclaiming.get(sku_id)
        if task is None:
            task = asyncio.ensure_future(self._reclaim(sku_id))
            self._reclaiming[sku_id] = task
            task.add_done_callback(lambda _: self._reclaiming.pop(sku_id))
        await asyncio.shield(task)

    def _was_dry(self, sku_id: int) -> bool:
        """Whether a moment ago the tail had nothing left: it is asked at once then. A hint, it decides nothing."""
        return self._dry_until.get(sku_id, 0.0) > time.monotonic()
