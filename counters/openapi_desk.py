"""What operators may do, as the stock's OpenAPI document has it."""

from typing import Any

from counters.openapi_calls import BODY, BY_KEY, HOLD, OPERATOR, SKU, call


def operator_paths() -> dict[str, Any]:
    state = {"name": "state", "in": "query", "required": True, "schema": {"enum": ["paying", "stuck"]}}
    paths: dict[str, Any] = {
        "/admin/skus": {"get": call("list_skus", "All SKUs", {200: ("The SKUs", "Skus")}, BY_KEY, security=OPERATOR)},
        "/admin/skus/{sku}": {
            "parameters": [SKU],
            "get": call(
                "read_settings",
                "A SKU's settings, defaults filled in",
                {200: ("The settings", "SkuRules")},
                (*BY_KEY, "not-found"),
                security=OPERATOR,
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
        "/admin/holds": {
            "parameters": [state],
            "get": call(
                "list_holds",
                "Holds that wait for their payment, or that wait for a person",
                {200: ("The holds", "PayingHolds")},
                (*BY_KEY, "invalid"),
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
        "/admin/audit": {
            "get": call("audit", "Whether the books balance", {200: ("The audit", "Audit")}, BY_KEY, security=OPERATOR)
        },
    }
    own = [{"url": "/", "description": "The stock's own address: never mounted on the public host."}]
    return {path: {"servers": own, **calls} for path, calls in paths.items()}
