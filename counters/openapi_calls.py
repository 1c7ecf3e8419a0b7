"""How the stock's OpenAPI document describes one call: who may make it, what it answers, which codes refuse it."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from chassis.problems import PROBLEMS
from counters.openapi_answers import reference
from counters.rules import KEY_HEADER, SKU_NAME

SKU = {
    "name": "sku",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{SKU_NAME.pattern}$"},
}
HOLD = {"name": "hold_id", "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
SALE = {**HOLD, "name": "sale_id"}
KEY_PARAMETER = reference("parameters", "idempotencyKey")

SHOP: list[dict[str, list[str]]] = [{"shop": []}]
OPERATOR: list[dict[str, list[str]]] = [{"operator": []}]
HOLDER: list[dict[str, list[str]]] = [{"shop": []}, {"pass": []}, {"passCookie": []}]
RESERVER: list[dict[str, list[str]]] = [{"pass": []}, {"passCookie": []}, {"shop": [], "pass": []}, {"shop": []}]

# What each kind of call may refuse, beside what its own line names.
BODY = ("malformed", "unsupported-media-type", "too-large", "invalid")
AT_WORK = ("key-in-flight",)
KEYED = ("key-missing", "key-reused", *AT_WORK)
BY_KEY = ("unauthenticated", "forbidden")
BY_PASS = ("pass-required", "pass-refused")
NOT_TO_BE_HAD = ("not-found", "sold-out", "insufficient-stock", "seat-taken", "buyer-limit", "not-on-sale")
ENDED = ("not-found", "stale-fence", "hold-expired", "hold-released")


def call(
    operation: str,
    summary: str,
    answers: Mapping[int, tuple[str, str | None]],
    refusals: Sequence[str],
    *,
    body: str | None = None,
    security: Sequence[Mapping[str, list[str]]] = (),
    keyed: bool = False,
    busy: bool = True,
    parameters: Sequence[Mapping[str, Any]] = (),
    leads_to: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """One call: `refusals` are codes of PROBLEMS, beside `busy`, which any call may answer that asks a store.

    `leads_to`: operations that take the answer's id, each with the name of its path's parameter.
    """
    responses = {str(status): _response(*answer) for status, answer in answers.items()}
    if keyed:
        for response in responses.values():
            response["headers"] = {"Idempotent-Replayed": reference("headers", "replayed")}
    if leads_to:
        for response in responses.values():
            response["links"] = {name: _link(name, parameter) for name, parameter in leads_to}
    described: dict[str, Any] = {
        "operationId": operation,
        "summary": summary,
        "responses": responses | _refusals({*refusals, *(("busy",) if busy else ())}),
        "security": list(security),
    }
    if keyed or parameters:
        described["parameters"] = [*parameters, *((KEY_PARAMETER,) if keyed else ())]
    if body is not None:
        content = {"application/json": {"schema": reference("schemas", body)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _link(operation: str, parameter: str) -> dict[str, Any]:
    return {"operationId": operation, "parameters": {parameter: "$response.body#/id"}}


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


IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "1 to 255 visible ASCII characters, bare or in quotes: your own, and the same for every retry.",
    "schema": {"type": "string", "pattern": KEY_HEADER},
}
REPLAYED = {"description": "Present on a repeat, which has no effect of its own.", "schema": {"enum": ["true"]}}
SECURITY_SCHEMES = {
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
