"""The stock's OpenAPI 3.1 document: what exists, and nothing that does not."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.http import json_response
from chassis.settings import Settings
from counters.adjustments import AdjustBody, Adjustment, Incident, ReasonBody, SourceSum
from counters.history import Entry, Figures
from counters.openapi_answers import ANSWERS, echoed_settings, line_schema
from counters.openapi_calls import (
    AT_WORK,
    BODY,
    BY_KEY,
    BY_PASS,
    ENDED,
    HOLD,
    HOLDER,
    IDEMPOTENCY_KEY,
    KEYED,
    NOT_TO_BE_HAD,
    REPLAYED,
    RESERVER,
    SALE,
    SECURITY_SCHEMES,
    SHOP,
    SKU,
    call,
)
from counters.openapi_desk import operator_paths
from counters.rules import (
    CancelBody,
    ConfirmBody,
    ExtendBody,
    FenceBody,
    PayingBody,
    ReserveBody,
    ResolveBody,
    SkuSettings,
)
from counters.stories import Event

BODIES = (
    *(ReserveBody, PayingBody, ConfirmBody, FenceBody, ExtendBody, CancelBody),
    *(ResolveBody, SkuSettings, AdjustBody, ReasonBody),
)
ROWS = (Entry, Event, Figures, Adjustment, SourceSum, Incident)


def openapi_route(settings: Settings) -> Route:
    """GET /openapi.json."""
    document = openapi_document(settings.public_url + settings.prefix)

    async def openapi(_request: Request) -> Response:
        return json_response(document, headers={"Cache-Control": "public, max-age=60"})

    return Route("/openapi.json", openapi, methods=["GET"])


def openapi_document(server_url: str) -> dict[str, Any]:
    """The document; `server_url` is where buyers and shops reach /v1."""
    _, schemas = msgspec.json.schema_components((*BODIES, *ROWS), ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairgate stock",
            "version": "1",
            "description": "The stock: holds and what is left of SKUs; for operators, SKUs, adjustments, payments, the ledger and the audit.",
        },
        "servers": [{"url": server_url}],
        "paths": _hold_paths() | _sku_paths() | operator_paths() | _process_paths(),
        "components": {
            "schemas": {
                **schemas,
                **ANSWERS,
                "Line": line_schema(schemas["Line"]),
                "SkuRules": echoed_settings(schemas["SkuSettings"]),
            },
            "parameters": {"idempotencyKey": IDEMPOTENCY_KEY},
            "headers": {"replayed": REPLAYED},
            "securitySchemes": SECURITY_SCHEMES,
        },
    }


def _hold_paths() -> dict[str, Any]:
    return {**_holding_paths(), **_ending_paths()}


def _holding_paths() -> dict[str, Any]:
    return {
        "/v1/holds": {
            "post": call(
                "reserve",
                "Hold units or seats, all or nothing; the same key again answers the first hold",
                {201: ("The hold", "Hold")},
                (*BODY, *KEYED, *BY_KEY, *BY_PASS, *NOT_TO_BE_HAD),
                body="ReserveBody",
                security=RESERVER,
                keyed=True,
                leads_to=[(verb, "hold_id") for verb in ("read_hold", "start_payment", "confirm", "release", "extend")],
            )
        },
        "/v1/holds/{hold_id}": {
            "parameters": [HOLD],
            "get": call(
                "read_hold",
                "The hold as of now",
                {200: ("The hold", "Hold")},
                (*BY_KEY, *BY_PASS, "not-found"),
                security=HOLDER,
            ),
        },
        "/v1/holds/{hold_id}/extend": {
            "parameters": [HOLD],
            "post": call(
                "extend",
                "Move the deadline further away, never nearer; each time uses up one of extensions_max",
                {200: ("The hold", "Hold")},
                (*BODY, *BY_KEY, *BY_PASS, *ENDED, *AT_WORK, "hold-paying", "hold-sold", "extension-limit"),
                body="ExtendBody",
                security=HOLDER,
            ),
        },
    }


def _ending_paths() -> dict[str, Any]:
    return {
        "/v1/holds/{hold_id}/paying": {
            "parameters": [HOLD],
            "post": call(
                "start_payment",
                "Let the hold wait for its payment; repeating never moves the deadline past the first start's",
                {200: ("The hold", "Hold")},
                (*BODY, *BY_KEY, *ENDED, *AT_WORK, "hold-sold"),
                body="PayingBody",
                security=SHOP,
            ),
        },
        "/v1/holds/{hold_id}/confirm": {
            "parameters": [HOLD],
            "post": call(
                "confirm",
                "Sell what the hold holds, or a part of it, and the rest returns; a sold hold answers its one sale, "
                "whatever the key. `reacquire` takes an expired hold's units again if they are still free",
                {200: ("The sale", "Sale")},
                (*BODY, *KEYED, *BY_KEY, *ENDED),
                body="ConfirmBody",
                security=SHOP,
                keyed=True,
                leads_to=[("cancel", "sale_id")],
            ),
        },
        "/v1/sales/{sale_id}/cancel": {
            "parameters": [SALE],
            "post": call(
                "cancel",
                "Give a sale's units back to stock; cancelling twice is one cancel",
                {200: ("The sale, cancelled", "Sale")},
                (*BODY, *BY_KEY, "not-found"),
                body="CancelBody",
                security=SHOP,
            ),
        },
        "/v1/holds/{hold_id}/release": {
            "parameters": [HOLD],
            "post": call(
                "release",
                "Give the units back; releasing twice is one release",
                {200: ("The hold", "Hold")},
                (*BODY, *BY_KEY, *BY_PASS, *AT_WORK, "not-found", "stale-fence", "hold-paying", "hold-sold"),
                body="FenceBody",
                security=HOLDER,
            ),
        },
    }


def _sku_paths() -> dict[str, Any]:
    return {
        "/v1/skus/{sku}": {
            "parameters": [SKU],
            "get": call("read_sku", "What is left of a SKU", {200: ("The SKU", "Sku")}, ("not-found",)),
        },
        "/v1/skus/{sku}/seats": {
            "parameters": [SKU],
            "get": call(
                "read_seats",
                "The seat map with states; send its ETag back as If-None-Match",
                {200: ("The map", "SeatMap"), 304: ("Unchanged", None)},
                ("not-found",),
            ),
        },
    }


def _process_paths() -> dict[str, Any]:
    metrics = {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}
    unready = {503: ("A check fails", "Health")}
    return {
        "/healthz": {"get": call("healthz", "Whether the process lives", {200: ("Alive", "Health")}, (), busy=False)},
        "/readyz": {
            "get": call("readyz", "Whether it can serve", {200: ("Ready", "Health"), **unready}, (), busy=False)
        },
        "/metrics": {
            "get": {"operationId": "metrics", "summary": "Metrics", "responses": {"200": metrics}, "security": []}
        },
    }
