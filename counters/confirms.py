"""The road of a confirm: the hold as it is, or a part of it; and where it has expired and the shop asks for it, its units
taken again if they are still free.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

import orjson

from chassis.problems import busy
from counters.calls import Answer, Verbs
from counters.ids import new_operation_id, new_sale_id
from counters.lanes import Lanes
from counters.rules import Confirmation

ROUNDS_MAX = 8

Reclaim = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Ids:
    operation: UUID
    sale: UUID


class Confirms:
    """Confirms on one database; `reclaim` ends due holds of the SKU with that number."""

    def __init__(self, verbs: Verbs, lanes: Lanes, reclaim: Reclaim) -> None:
        self._verbs = verbs
        self._lanes = lanes
        self._reclaim = reclaim

    async def decide(self, wanted: Confirmation) -> Answer:
        """What becomes of `wanted`; the outcomes stand in the heads of confirm.sql, confirm_part.sql and reacquire.sql.

        Raises Problem busy or key-in-flight.
        """
        ids = _Ids(new_operation_id(), new_sale_id(wanted.hold.sku_id))
        for _ in range(ROUNDS_MAX):
            answer = await (
                self._whole(wanted, ids) if wanted.lines is None else self._one("confirm_part", wanted, ids)
            )
            if answer.outcome != "hold-expired" or not wanted.reacquire:
                return answer
            answer = await self._one("reacquire", wanted, ids)
            if answer.outcome != "reclaim":
                return answer
            for sku_id in orjson.loads(answer.text or "{}")["sku_ids"]:
                await self._reclaim(sku_id)
        raise busy("Units are coming back and going again faster than this confirm could be decided. Try again.")

    async def _whole(self, wanted: Confirmation, ids: _Ids) -> Answer:
        arguments = (
            wanted.hold.id, wanted.fence, wanted.caller, wanted.keyed.slot, wanted.keyed.fingerprint, ids.operation, ids.sale,
        )  # fmt: skip
        return await self._lanes.ask("confirm", wanted.hold.sku_id, wanted.hold.id, arguments)

    async def _one(self, verb: str, wanted: Confirmation, ids: _Ids) -> Answer:
        return await self._verbs.decide(
            verb, wanted.hold.sku_id, wanted.hold.id, wanted.fence, wanted.caller, wanted.lines_json, wanted.keyed.slot,
            wanted.keyed.fingerprint, ids.operation, ids.sale,
        )  # fmt: skip
