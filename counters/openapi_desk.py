"""The operators' part of the stock's OpenAPI document: what lies below /admin, never mounted on the public host."""

from typing import Any

from counters.history_api import PAGE_ROWS_MAX
from counters.openapi_calls import BODY, BY_KEY, HOLD, OPERATOR, SKU, call

_LIMIT = {
    "name": "limit",
    "in": "query",
    "description": "At most so many",
    "schema": {"type": "integer", "minimum": 1, "maximum": PAGE_ROWS_MAX, "default": 100},
}


def operator_paths() -> dict[str, Any]:
    """Every call below /admin."""
    paths = _sku_paths() | _seller_paths() | _hold_paths() | _book_paths()
    own = [{"url": "/", "description": "The stock's own address: never mounted on the public host."}]
    return {path: {"servers": own, **calls} for path, calls in paths.items()}


def _sku_paths() -> dict[str, Any]:
    moment = {
        "name": "as_of",
        "in": "query",
        "description": "Answer what the counters said then, by the ledger, instead of the settings",
        "schema": {"type": "string", "format": "date-time"},
    }
    return {
        "/admin/skus": {"get": call("list_skus", "All SKUs", {200: ("The SKUs", "Skus")}, BY_KEY, security=OPERATOR)},
        "/admin/skus/{sku}": {
            "parameters": [SKU],
            "get": call(
                "read_settings",
                "A SKU's settings, defaults filled in; or its counters at an earlier moment",
                {200: ("The settings, or the counters", "SkuRulesOrFigures")},
                (*BY_KEY, "not-found", "invalid"),
                security=OPERATOR,
                parameters=[moment],
            ),
            "put": call(
                "put_sku",
                "Create or change a SKU; the same body twice changes nothing",
                {201: ("Created: the settings", "SkuRules"), 200: ("The settings", "SkuRules")},
                (*BODY, *BY_KEY, "exists", "below-commitments"),
                body="SkuSettings",
                security=OPERATOR,
            ),
        },
    }


def _seller_paths() -> dict[str, Any]:
    """What sellers change about a SKU in sale."""
    before = {"name": "before", "in": "query", "schema": {"type": "string", "format": "uuid"}}
    return {
        "/admin/skus/{sku}/adjustments": {
            "parameters": [SKU],
            "post": call(
                "adjust",
                "Change a total as its source says; the same key again answers the first adjustment",
                {201: ("The adjustment", "AdjustmentMade")},
                (*BODY, *BY_KEY, "key-missing", "key-reused", "not-found", "below-commitments"),
                body="AdjustBody",
                security=OPERATOR,
                keyed=True,
            ),
            "get": call(
                "list_adjustments",
                "The adjustments, newest first, and what each source has changed in all",
                {200: ("The adjustments", "Adjustments")},
                (*BY_KEY, "not-found", "invalid"),
                security=OPERATOR,
                parameters=[before, _LIMIT],
            ),
        },
        **{
            f"/admin/skus/{{sku}}/{verb}": {
                "parameters": [SKU],
                "post": call(
                    verb,
                    summary,
                    {200: ("What the SKU's state is now", "SkuState")},
                    (*BODY, *BY_KEY, "not-found", "not-on-sale"),
                    body="ReasonBody",
                    security=OPERATOR,
                ),
            }
            for verb, summary in (
                ("halt", "Grant no more holds; what is held may still be paid, confirmed and released"),
                ("resume", "Let a halted sale go on"),
            )
        },
    }


def _hold_paths() -> dict[str, Any]:
    state = {"name": "state", "in": "query", "required": True, "schema": {"enum": ["paying", "stuck"]}}
    return {
        "/admin/holds": {
            "get": call(
                "list_holds",
                "Holds that wait for their payment, or that wait for a person",
                {200: ("The holds", "PayingHolds")},
                (*BY_KEY, "invalid"),
                security=OPERATOR,
                parameters=[state],
            ),
        },
        "/admin/holds/{hold_id}": {
            "parameters": [HOLD],
            "get": call(
                "explain_hold",
                "What happened to a hold, in sentences, and what it would answer now",
                {200: ("The story", "HoldStory")},
                (*BY_KEY, "not-found"),
                security=OPERATOR,
            ),
        },
        "/admin/holds/{hold_id}/resolve": {
            "parameters": [HOLD],
            "post": call(
                "resolve",
                "End a hold that waits for its payment, by what a person found out",
                {200: ("The sale (paid) or the released hold (unpaid)", "SaleOrHold")},
                (*BODY, *BY_KEY, "not-found", "hold-not-paying"),
                body="ResolveBody",
                security=OPERATOR,
            ),
        },
    }


def _book_paths() -> dict[str, Any]:
    after = {"name": "after", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}}
    state = {"name": "state", "in": "query", "schema": {"enum": ["open", "closed"]}}
    return {
        "/admin/skus/{sku}/history": {
            "parameters": [SKU],
            "get": call(
                "read_history",
                "The ledger of a SKU in the order of its numbers",
                {200: ("A page of rows", "History")},
                (*BY_KEY, "not-found", "invalid"),
                security=OPERATOR,
                parameters=[after, _LIMIT],
            ),
        },
        "/admin/incidents": {
            "get": call(
                "list_incidents",
                "Where units are promised that do not exist, newest first",
                {200: ("The incidents", "Incidents")},
                (*BY_KEY, "invalid"),
                security=OPERATOR,
                parameters=[state, _LIMIT],
            ),
        },
        "/admin/audit": {
            "get": call("audit", "Whether the books balance", {200: ("The audit", "Audit")}, BY_KEY, security=OPERATOR)
        },
    }
