"""The stock API for buyers and shops, beside its hot calls: read a hold, cancel a sale, what is left of a SKU."""

import asyncio
import hashlib
import time
from datetime import UTC, datetime
from uuid import UUID

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.answer import as_response
from chassis.hot import first_headers
from chassis.http import json_response, read_json, timestamp
from chassis.problems import Problem
from counters.answers import said
from counters.callers import Callers, as_holder
from counters.catalog import Catalog
from counters.ids import sku_of_hold
from counters.rules import SKU_NAME, CancelBody, HoldName, SaleName
from counters.store import Level, Stock

SEAT_MAP_SECONDS = 0.5
SEAT_FIELDS = ("seat", "section", "row", "number", "tier", "x", "y", "state")


class StockApi:
    """The handlers; each asks the stock and says what it heard."""

    def __init__(self, stock: Stock, callers: Callers, catalog: Catalog) -> None:
        self._stock = stock
        self._callers = callers
        self._catalog = catalog
        self._seat_maps: dict[int, tuple[float, asyncio.Task[bytes]]] = {}

    def routes(self) -> list[Route]:
        return [
            Route("/v1/holds/{hold_id}", self.read_hold, methods=["GET"]),
            Route("/v1/sales/{sale_id}/cancel", self.cancel, methods=["POST"]),
            Route("/v1/skus/{sku}", self.read_sku, methods=["GET"]),
            Route("/v1/skus/{sku}/seats", self.read_seats, methods=["GET"]),
        ]

    async def read_hold(self, request: Request) -> Response:
        callers = await self._callers.holders(first_headers(request.scope))
        hold = hold_name(request.path_params["hold_id"])
        return as_response(said(await as_holder(callers, lambda caller: self._stock.hold(hold, caller))))

    async def cancel(self, request: Request) -> Response:
        caller = await self._callers.shop(first_headers(request.scope))
        body = await read_json(request, CancelBody)
        sale = sale_name(request.path_params["sale_id"])
        return as_response(said(await self._stock.cancel(sale, caller.name, body.reason)))

    async def read_sku(self, request: Request) -> Response:
        name = sku_name(request)
        levels = await self._stock.levels([name])
        if not levels:
            raise no_sku(name)
        return json_response(sku_document(levels[0]))

    async def read_seats(self, request: Request) -> Response:
        name = sku_name(request)
        item = await self._catalog.item(name)
        if item.kind != "seated":
            raise Problem("not-found", f"{name} has no seats: it is fungible.")
        body = await self._seat_map(name, item.id)
        etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    async def _seat_map(self, name: str, sku_id: int) -> bytes:
        """The map's document, read at most once in SEAT_MAP_SECONDS: for looking at, a seat is decided when it is taken."""
        now = time.monotonic()
        kept = self._seat_maps.get(sku_id)
        if kept is None or now - kept[0] > SEAT_MAP_SECONDS or (kept[1].done() and kept[1].exception() is not None):
            kept = (now, asyncio.create_task(self._read_seat_map(name, sku_id)))
            self._seat_maps[sku_id] = kept
        return await asyncio.shield(kept[1])

    async def _read_seat_map(self, name: str, sku_id: int) -> bytes:
        seats = [{field: row[field] for field in SEAT_FIELDS} for row in await self._stock.seats(sku_id)]
        return orjson.dumps({"sku": name, "seats": seats})


def sku_document(level: Level) -> dict[str, object]:
    """What is left of a SKU, as callers see it."""
    return {
        "sku": level.name,
        "title": level.title,
        "kind": level.kind,
        "state": level.state,
        "room": level.room,
        "total": level.total,
        "held": level.held,
        "sold": level.sold,
        "available": level.available,
        "backordered": level.backordered,
        "next_release_at": level.next_release_at,
        "server_time": timestamp(datetime.now(UTC)),
    }


def sku_name(request: Request) -> str:
    """The SKU that a path names. Raises Problem not-found for what cannot be a name: nothing odd reaches the database."""
    name: str = request.path_params["sku"]
    if not SKU_NAME.fullmatch(name):
        raise no_sku(name)
    return name


def no_sku(name: str) -> Problem:
    """The problem that says that there is no such SKU."""
    return Problem("not-found", f"There is no SKU {name}.")


def hold_name(text: str) -> HoldName:
    """The hold that a path names. Raises Problem not-found for what cannot be one of our ids."""
    return HoldName(*_id_and_sku(text, "hold"))


def sale_name(text: str) -> SaleName:
    """The sale that a path names. Raises Problem not-found for what cannot be one of our ids."""
    return SaleName(*_id_and_sku(text, "sale"))


def _id_and_sku(text: str, kind: str) -> tuple[UUID, int]:
    try:
        found = UUID(text)
    except ValueError:
        raise Problem("not-found", f"There is no such {kind}.") from None
    sku_id = sku_of_hold(found)
    if not 0 < sku_id < 1 << 31:
        raise Problem("not-found", f"There is no such {kind}.")
    return found, sku_id
