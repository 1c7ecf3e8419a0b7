"""What operators change about a SKU in sale: its total, as a source says, and whether it is halted; and what that left open."""

from typing import Literal
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.http import json_response, read_json
from chassis.keys import ApiKeys
from counters.adjustments import AdjustBody, Adjustments, IncidentState, ReasonBody
from counters.admin_api import acting_operator, named_sku, read_query
from counters.answers import done_response, refusal
from counters.history_api import Rows, row_document
from counters.rules import Done, Keyed, Refused, fingerprint, read_key
from counters.store import Stock


class AdjustmentsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GET /admin/skus/{sku}/adjustments: the newest, or those older than `before`."""

    before: UUID | None = None
    limit: Rows = 100


class IncidentsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GET /admin/incidents: in any state, or in one."""

    state: IncidentState | None = None
    limit: Rows = 100


class AdjustApi:
    """The handlers; each needs an operator's key."""

    def __init__(self, stock: Stock, adjustments: Adjustments, keys: ApiKeys) -> None:
        self._stock = stock
        self._adjustments = adjustments
        self._keys = keys

    def routes(self) -> list[Route]:
        return [
            Route("/admin/skus/{sku}/adjustments", self.adjust, methods=["POST"]),
            Route("/admin/skus/{sku}/adjustments", self.list_adjustments, methods=["GET"]),
            Route("/admin/skus/{sku}/halt", self.halt, methods=["POST"]),
            Route("/admin/skus/{sku}/resume", self.resume, methods=["POST"]),
            Route("/admin/incidents", self.list_incidents, methods=["GET"]),
        ]

    async def adjust(self, request: Request) -> Response:
        operator = await acting_operator(self._keys, request)
        key = read_key(request.headers.get("idempotency-key"))
        body = await read_json(request, AdjustBody)
        sku = await named_sku(self._stock, request)
        return _say(await self._stock.adjust(sku.id, body, operator, adjust_key(operator, sku.id, key, body)), 201)

    async def list_adjustments(self, request: Request) -> Response:
        await acting_operator(self._keys, request)
        page = read_query(request, AdjustmentsQuery)
        sku = await named_sku(self._stock, request)
        return json_response(
            {
                "sku": sku.name,
                "adjustments": [
                    row_document(row) for row in await self._adjustments.latest(sku.id, page.before, page.limit)
                ],
                "sources": [row_document(row) for row in await self._adjustments.by_source(sku.id)],
            }
        )

    async def halt(self, request: Request) -> Response:
        return await self._set_state(request, "halted")

    async def resume(self, request: Request) -> Response:
        return await self._set_state(request, "on_sale")

    async def list_incidents(self, request: Request) -> Response:
        await acting_operator(self._keys, request)
        query = read_query(request, IncidentsQuery)
        incidents = await self._adjustments.incidents(None, query.state, query.limit)
        return json_response({"incidents": [row_document(incident) for incident in incidents]})

    async def _set_state(self, request: Request, state: Literal["halted", "on_sale"]) -> Response:
        operator = await acting_operator(self._keys, request)
        body = await read_json(request, ReasonBody)
        sku = await named_sku(self._stock, request)
        return _say(await self._stock.halt(sku.id, state, body.reason, operator))


def adjust_key(actor: str, sku_id: int, key: str, change: AdjustBody) -> Keyed:
    """The key of an adjustment, bound to who asks, the SKU and the body."""
    return Keyed(f"{actor}:adjust:{sku_id}", key, fingerprint(change))


def _say(outcome: Done | Refused, status: int = 200) -> Response:
    if isinstance(outcome, Refused):
        raise refusal(outcome)
    return done_response(outcome, status)
