"""The stock's OpenAPI 3.1 document: what exists, and nothing that does not."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chassis.http import json_response
from chassis.problems import PROBLEMS
from chassis.settings import Settings
from counters.openapi_answers import ANSWERS, echoed_settings, reference
from counters.rules import SKU_NAME, ExtendBody, FenceBody, PayingBody, ReserveBody, ResolveBody, SkuSettings

_SKU = {
    "name": "sku",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{SKU_NAME.pattern}$"},
}
_HOLD = {"name": "hold_id", "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
_KEY_PARAMETER = reference("parameters", "idempotencyKey")

_SHOP: list[dict[str, list[str]]] = [{"shop": []}]
_OPERATOR: list[dict[str, list[str]]] = [{"operator": []}]
_HOLDER: list[dict[str, list[str]]] = [{"shop": []}, {"pass": []}, {"passCookie": []}]
_RESERVER: list[dict[str, list[str]]] = [{"pass": []}, {"passCookie": []}, {"shop": [], "pass": []}, {"shop": []}]

# What each kind of call may refuse, beside what its own line names.
_BODY = ("malformed", "unsupported-media-type", "too-large", "invalid")
_KEYED = ("key-missing", "key-reused")
_BY_KEY = ("unauthenticated", "forbidden")
_BY_PASS = ("pass-required", "pass-refused")
_NOT_TO_BE_HAD = ("not-found", "sold-out", "insufficient-stock", "seat-taken", "buyer-limit", "not-on-sale")
_ENDED = ("not-found", "stale-fence", "hold-expired", "hold-released")


def openapi_route(settings: Settings) -> Route:
    """GET /openapi.json."""
    document = openapi_document(settings.public_url + settings.prefix)

    async def openapi(_request: Request) -> Response:
        return json_response(document, headers={"Cache-Control": "public, max-age=60"})

    return Route("/openapi.json", openapi, methods=["GET"])


def openapi_document(server_url: str) -> dict[str, Any]:
    """The document; `server_url` is where buyers and shops reach /v1."""
    bodies = [ReserveBody, FenceBody, PayingBody, ExtendBody, ResolveBody, SkuSettings]
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairgate stock",
            "version": "1",
            "description": "The stock: holds and what is left of SKUs; for operators, SKUs, payments and the audit.",
        },
        "servers": [{"url": server_url}],
        "paths": _hold_paths() | _sku_paths() | _operator_paths() | _process_paths(),
        "components": {
            "schemas": {**schemas, **ANSWERS, "SkuRules": echoed_settings(schemas["SkuSettings"])},
            "parameters": {"idempotencyKey": _IDEMPOTENCY_KEY},
            "headers": {"replayed": _REPLAYED},
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def _hold_paths() -> dict[str, Any]:
    return {**_holding_paths(), **_ending_paths()}


def _holding_paths() -> dict[str, Any]:
    return {
        "/v1/holds": {
            "post": _call(
                "reserve",
                "Hold units or seats, all or nothing; the same key again answers the first hold",
                {201: ("The hold", "Hold")},
                (*_BODY, *_KEYED, *_BY_KEY, *_BY_PASS, *_NOT_TO_BE_HAD),
                body="ReserveBody",
                security=_RESERVER,
                keyed=True,
            )
        },
        "/v1/holds/{hold_id}": {
            "parameters": [_HOLD],
            "get": _call(
                "read_hold",
                "The hold as of now",
                {200: ("The hold", "Hold")},
                (*_BY_KEY, *_BY_PASS, "not-found"),
                security=_HOLDER,
            ),
        },
        "/v1/holds/{hold_id}/extend": {
            "parameters": [_HOLD],
            "post": _call(
                "extend",
                "Move the deadline further away, never nearer; each time uses up one of extensions_max",
                {200: ("The hold", "Hold")},
                (*_BODY, *_BY_KEY, *_BY_PASS, *_ENDED, "hold-paying", "hold-sold", "extension-limit"),
                body="ExtendBody",
                security=_HOLDER,
            ),
        },
    }


def _ending_paths() -> dict[str, Any]:
    return {
        "/v1/holds/{hold_id}/paying": {
            "parameters": [_HOLD],
            "post": _call(
                "start_payment",
                "Let the hold wait for its payment; repeating never moves the deadline past the first start's",
                {200: ("The hold", "Hold")},
                (*_BODY, *_BY_KEY, *_ENDED, "hold-sold"),
                body="PayingBody",
                security=_SHOP,
            ),
        },
        "/v1/holds/{hold_id}/confirm": {
            "parameters": [_HOLD],
            "post": _call(
                "confirm",
                "Sell what the hold holds; a sold hold answers its one sale, whatever the key",
                {200: ("The sale", "Sale")},
                (*_BODY, *_KEYED, *_BY_KEY, *_ENDED),
                body="FenceBody",
                security=_SHOP,
                keyed=True,
            ),
        },
        "/v1/holds/{hold_id}/release": {
            "parameters": [_HOLD],
            "post": _call(
                "release",
                "Give the units back; releasing twice is one release",
                {200: ("The hold", "Hold")},
                (*_BODY, *_BY_KEY, *_BY_PASS, "not-found", "stale-fence", "hold-paying", "hold-sold"),
                body="FenceBody",
                security=_HOLDER,
            ),
        },
    }


def _sku_paths() -> dict[str, Any]:
    return {
        "/v1/skus/{sku}": {
            "parameters": [_SKU],
            "get": _call("read_sku", "What is left of a SKU", {200: ("The SKU", "Sku")}, ("not-found",)),
        },
        "/v1/skus/{sku}/seats": {
            "parameters": [_SKU],
            "get": _call(
                "read_seats",
                "The seat map with states; send its ETag back as If-None-Match",
                {200: ("The map", "SeatMap"), 304: ("Unchanged", None)},
                ("not-found",),
            ),
        },
    }


def _operator_paths() -> dict[str, Any]:
    state = {"name": "state", "in": "query", "required": True, "schema": {"enum": ["paying", "stuck"]}}
    paths: dict[str, Any] = {
        "/admin/skus": {
            "get": _call("list_skus", "All SKUs", {200: ("The SKUs", "Skus")}, _BY_KEY, security=_OPERATOR)
        },
        "/admin/skus/{sku}": {
            "parameters": [_SKU],
            "get": _call(
                "read_settings",
                "A SKU's settings, defaults filled in",
                {200: ("The settings", "SkuRules")},
                (*_BY_KEY, "not-found"),
                security=_OPERATOR,
            ),
            "put": _call(
                "put_sku",
                "Create or change a SKU; the same body twice changes nothing",
                {201: ("Created: the settings", "SkuRules"), 200: ("The settings", "SkuRules")},
                (*_BODY, *_BY_KEY, "exists", "below-commitments"),
                body="SkuSettings",
                security=_OPERATOR,
            ),
        },
        "/admin/holds": {
            "parameters": [state],
            "get": _call(
                "list_holds",
                "Holds that wait for their payment, or that wait for a person",
                {200: ("The holds", "PayingHolds")},
                (*_BY_KEY, "invalid"),
                security=_OPERATOR,
            ),
        },
        "/admin/holds/{hold_id}/resolve": {
            "parameters": [_HOLD],
            "post": _call(
                "resolve",
                "End a hold that waits for its payment, by what a person found out",
                {200: ("The sale (paid) or the released hold (unpaid)", "SaleOrHold")},
                (*_BODY, *_BY_KEY, "not-found", "hold-not-paying"),
                body="ResolveBody",
                security=_OPERATOR,
            ),
        },
        "/admin/audit": {
            "get": _call(
                "audit", "Whether the books balance", {200: ("The audit", "Audit")}, _BY_KEY, security=_OPERATOR
            )
        },
    }
    own = [{"url": "/", "description": "The stock's own address: never mounted on the public host."}]
    return {path: {"servers": own, **calls} for path, calls in paths.items()}


def _process_paths() -> dict[str, Any]:
    metrics = {"description": "Prometheus text", "content": {"text/plain": {"schema": {"type": "string"}}}}
    unready = {503: ("A check fails", "Health")}
    return {
        "/healthz": {"get": _call("healthz", "Whether the process lives", {200: ("Alive", "Health")}, (), busy=False)},
        "/readyz": {
            "get": _call("readyz", "Whether it can serve", {200: ("Ready", "Health"), **unready}, (), busy=False)
        },
        "/metrics": {
            "get": {"operationId": "metrics", "summary": "Metrics", "responses": {"200": metrics}, "security": []}
        },
    }


def _call(
    operation: str,
    summary: str,
    answers: Mapping[int, tuple[str, str | None]],
    refusals: Sequence[str],
    *,
    body: str | None = None,
    security: Sequence[Mapping[str, list[str]]] = (),
    keyed: bool = False,
    busy: bool = True,
) -> dict[str, Any]:
    """One call: `refusals` are codes of PROBLEMS, beside `busy`, which any call may answer that asks a store."""
    responses = {str(status): _response(*answer) for status, answer in answers.items()}
    if keyed:
        for response in responses.values():
            response["headers"] = {"Idempotent-Replayed": reference("headers", "replayed")}
    call: dict[str, Any] = {
        "operationId": operation,
        "summary": summary,
        "responses": responses | _refusals({*refusals, *(("busy",) if busy else ())}),
        "security": list(security),
    }
    if keyed:
        call["parameters"] = [_KEY_PARAMETER]
    if body is not None:
        content = {"application/json": {"schema": reference("schemas", body)}}
        call["requestBody"] = {"required": True, "content": content}
    return call


def _response(description: str, schema: str | None) -> dict[str, Any]:
    if schema is None:
        return {"description": description}
    return {
        "description": description,
        "content": {"application/json": {"schema": reference("schemas", schema)}},
    }


def _refusals(codes: set[str]) -> dict[str, Any]:
    """One response for each status that `codes` have, naming the codes."""
    by_status = groupby(sorted(codes, key=lambda code: (PROBLEMS[code][0], code)), key=lambda code: PROBLEMS[code][0])
    return {str(status): _refusal(list(alike)) for status, alike in by_status}


def _refusal(codes: list[str]) -> dict[str, Any]:
    schema = {"allOf": [reference("schemas", "Problem")], "properties": {"code": {"enum": codes}}}
    return {
        "description": "; ".join(f"`{code}`: {PROBLEMS[code][1]}" for code in codes),
        "content": {"application/problem+json": {"schema": schema}},
    }


_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "1 to 255 visible ASCII characters, bare or in quotes: your own, and the same for every retry.",
    "schema": {"type": "string", "minLength": 1},
}
_REPLAYED = {"description": "Present on a repeat, which has no effect of its own.", "schema": {"enum": ["true"]}}
_SECURITY_SCHEMES = {
    "shop": {"type": "http", "scheme": "bearer", "description": "A shop's key, fgk_…"},
    "operator": {"type": "http", "scheme": "bearer", "description": "An operator's key, fgk_…"},
    "pass": {"type": "apiKey", "in": "header", "name": "Fairgate-Pass"},
    "passCookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "fairgate-pass-{room}",
        "description": "With the prefix __Host- over https.",
    },
}
