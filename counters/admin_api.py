"""The operators' side of the stock API: SKUs, holds that wait for a person, the audit. Never mounted on the public host."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Literal, TypeVar

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.http import invalid, invalid_fields, json_response, read_json, timestamp
from chassis.keys import ApiKeys
from chassis.moments import Moment, keep_in_utc
from counters.answers import done_response, refusal
from counters.api import hold_name, no_sku, sku_document, sku_name
from counters.history import Figures, History
from counters.rules import SKU_NAME, Refused, ResolveBody, SkuSettings
from counters.store import PayingHold, Sku, Stock

T = TypeVar("T")


class AsOfQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GET /admin/skus/{sku}: its settings, or with `as_of` what its counters said then."""

    as_of: Moment | None = None

    def __post_init__(self) -> None:
        keep_in_utc(self, "as_of")


class WaitingQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GET /admin/holds."""

    state: Literal["paying", "stuck"]


class AdminApi:
    """The handlers; each needs an operator's key."""

    def __init__(self, stock: Stock, history: History, keys: ApiKeys) -> None:
        self._stock = stock
        self._history = history
        self._keys = keys

    def routes(self) -> list[Route]:
        return [
            Route("/admin/skus", self.list_skus, methods=["GET"]),
            Route("/admin/skus/{sku}", self.read_sku, methods=["GET"]),
            Route("/admin/skus/{sku}", self.put_sku, methods=["PUT"]),
            Route("/admin/holds", self.list_holds, methods=["GET"]),
            Route("/admin/holds/{hold_id}/resolve", self.resolve, methods=["POST"]),
            Route("/admin/audit", self.audit, methods=["GET"]),
        ]

    async def list_skus(self, request: Request) -> Response:
        await acting_operator(self._keys, request)
        return json_response({"skus": [sku_document(level) for level in await self._stock.levels()]})

    async def read_sku(self, request: Request) -> Response:
        await acting_operator(self._keys, request)
        at = read_query(request, AsOfQuery).as_of
        sku = await named_sku(self._stock, request)
        if at is None:
            return json_response(settings_document(sku))
        return json_response(as_of_document(sku, at, await self._history.as_of(sku, at)))

    async def put_sku(self, request: Request) -> Response:
        operator = await acting_operator(self._keys, request)
        name: str = request.path_params["sku"]
        if not SKU_NAME.fullmatch(name):
            raise invalid_fields([("", "a SKU's name has a-z, 0-9, dot, dash, underscore, at most 63 of them")])
        settings = (await read_json(request, SkuSettings)).checked()
        outcome = await self._stock.put_sku(name, settings, operator)
        if isinstance(outcome, Refused):
            raise refusal(outcome)
        created = orjson.loads(outcome.document)["outcome"] == "created"
        return json_response(settings_document(await named_sku(self._stock, request)), 201 if created else 200)

    async def list_holds(self, request: Request) -> Response:
        await acting_operator(self._keys, request)
        state = read_query(request, WaitingQuery).state
        holds = await self._stock.paying_holds(overdue_only=False)
        return json_response(
            {"holds": [hold_document(hold) for hold in holds if state == "paying" or hold.stuck_since]}
        )

    async def resolve(self, request: Request) -> Response:
        operator = await acting_operator(self._keys, request)
        body = await read_json(request, ResolveBody)
        outcome = await self._stock.resolve(
            hold_name(request.path_params["hold_id"]),
            body.outcome,
            overdue_only=False,
            actor=operator,
            reason=body.reason,
        )
        if isinstance(outcome, Refused):
            raise refusal(outcome)
        return done_response(outcome)

    async def audit(self, request: Request) -> Response:
        await acting_operator(self._keys, request)
        faults = [fault for level in await self._stock.levels() for fault in await self._stock.audit(level)]
        return json_response(
            {
                "balanced": not faults,
                "faults": [asdict(fault) for fault in faults],
                "as_of": timestamp(datetime.now(UTC)),
            }
        )


async def acting_operator(keys: ApiKeys, request: Request) -> str:
    """Who asks, as the ledger names operators. Raises Problem unauthenticated or forbidden."""
    return f"operator:{(await keys.actor(request, 'operator')).client}"


async def named_sku(stock: Stock, request: Request) -> Sku:
    """The SKU that the path names. Raises Problem not-found."""
    name = sku_name(request)
    sku = await stock.find_sku(name)
    if sku is None:
        raise no_sku(name)
    return sku


def read_query(request: Request, kind: type[T]) -> T:
    """The query as `kind`. Raises Problem invalid for one that is unknown, missing, out of range or given twice."""
    given = request.query_params.multi_items()
    query = dict(given)
    # msgspec would read the word null as a field that was left out.
    wrong = [name for name, value in query.items() if value == "null" or [one for one, _ in given].count(name) > 1]
    if wrong:
        raise invalid_fields([(f"/{name}", "is given once, or left out") for name in wrong])
    try:
        return msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error) from None


def as_of_document(sku: Sku, at: datetime, figures: Figures) -> dict[str, object]:
    """What a SKU's counters said at a moment."""
    return {"sku": sku.name, "as_of": timestamp(at), **asdict(figures)}


def settings_document(sku: Sku) -> dict[str, object]:
    """A SKU's settings with their defaults, without its seats."""
    fields: dict[str, object] = msgspec.to_builtins(sku.settings)
    del fields["seats"]
    return {"sku": sku.name, **fields}


def hold_document(hold: PayingHold) -> dict[str, object]:
    """A hold that waits for its payment, for operators."""
    return {
        "id": str(hold.id),
        "sku": hold.sku,
        "quantity": hold.quantity,
        "actor": hold.actor,
        "paying_until": timestamp(hold.paying_until),
        "stuck_since": None if hold.stuck_since is None else timestamp(hold.stuck_since),
    }
