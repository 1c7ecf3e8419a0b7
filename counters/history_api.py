"""What operators ask of the ledger: the history of a SKU, and the story of a hold."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.http import json_response, timestamp
from chassis.keys import ApiKeys
from chassis.problems import Problem
from counters.adjustments import Adjustment, Incident, SourceSum
from counters.admin_api import acting_operator, named_sku, read_query
from counters.api import hold_name
from counters.history import Entry, History
from counters.store import Stock
from counters.stories import Event, Story

PAGE_ROWS_MAX = 1_000
Rows = Annotated[int, msgspec.Meta(ge=1, le=PAGE_ROWS_MAX)]


class HistoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GET /admin/skus/{sku}/history: a page of rows after number `after`."""

    after: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] = 0
    limit: Rows = 100


class HistoryApi:
    """The handlers; each needs an operator's key."""

    def __init__(self, stock: Stock, history: History, keys: ApiKeys) -> None:
        self._stock = stock
        self._history = history
        self._keys = keys

    def routes(self) -> list[Route]:
        return [
            Route("/admin/skus/{sku}/history", self.read_history, methods=["GET"]),
            Route("/admin/holds/{hold_id}", self.explain_hold, methods=["GET"]),
        ]

    async def read_history(self, request: Request) -> Response:
        await acting_operator(self._keys, request)
        page = read_query(request, HistoryQuery)
        sku = await named_sku(self._stock, request)
        return json_response(
            history_document(sku.name, page.after, await self._history.entries(sku.id, page.after, page.limit))
        )

    async def explain_hold(self, request: Request) -> Response:
        await acting_operator(self._keys, request)
        story = await self._history.story(hold_name(request.path_params["hold_id"]))
        if story is None:
            raise Problem("not-found", "There is no such hold.")
        return json_response(story_document(story))


def row_document(row: Entry | Event | Adjustment | SourceSum | Incident) -> dict[str, object]:
    """A row of the books as JSON: its own fields, moments in RFC 3339."""
    document = asdict(row)
    for name, value in document.items():
        if isinstance(value, datetime):
            document[name] = timestamp(value)
        elif isinstance(value, UUID):
            document[name] = str(value)  # asyncpg's own kind of UUID is foreign to orjson
    return document


def history_document(sku: str, after: int, entries: list[Entry]) -> dict[str, object]:
    """A page of a SKU's history behind number `after`; `last` is what to ask for more `after`."""
    return {
        "sku": sku,
        "entries": [row_document(entry) for entry in entries],
        "last": entries[-1].number if entries else after,
    }


def story_document(story: Story) -> dict[str, object]:
    """A hold's story."""
    hold = story.hold
    return {
        "id": hold.id,
        "sku": story.sku,
        "state": story.state,
        "fence": hold.fence,
        "lines": msgspec.to_builtins(hold.lines),
        "quantity": hold.quantity,
        "backordered": hold.backordered,
        "actor": hold.actor,
        "owner": hold.owner,
        "buyer": hold.buyer,
        "expires_at": timestamp(hold.expires_at),
        "paying_until": None if hold.paying_until is None else timestamp(hold.paying_until),
        "sale": None if story.sale is None else str(story.sale),
        "events": [row_document(event) for event in story.events],
        "now_answers": story.now_answers,
    }
