"""The shapes of the stock's answers, as JSON Schema: the bodies that callers send come from their Structs, these do not."""

from collections.abc import Mapping
from typing import Any

from chassis.problems import PROBLEMS


def reference(kind: str, name: str) -> dict[str, str]:
    """A pointer to a named component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def line_schema(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line names either a quantity or seats, which its type cannot say."""
    kinds = (("quantity", "integer"), ("seats", "array"))
    return {**line, "oneOf": [{"required": [name], "properties": {name: {"type": kind}}} for name, kind in kinds]}


def echoed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What GET /admin/skus/{sku} answers: every setting but the seats, and the SKU's name."""
    properties = {"sku": _TEXT, **{name: kind for name, kind in settings["properties"].items() if name != "seats"}}
    return {**settings, "title": "SkuRules", "properties": properties, "required": list(properties)}


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_MOMENT = {"type": "string", "format": "date-time"}
_MOMENT_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
_COUNT = {"type": "integer", "minimum": 0}
_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_UUID = {"type": "string", "format": "uuid"}
_UUID_OR_NULL = {"type": ["string", "null"], "format": "uuid"}
_FENCE = {"type": "integer", "minimum": 1, "maximum": 2**53 - 1}
_LINES = _list(reference("schemas", "Line"))

_SKU_STATES = ("draft", "on_sale", "halted", "ended")

ANSWERS: dict[str, Any] = {
    "Problem": _object(
        {"type": _TEXT, "title": _TEXT, "status": _COUNT, "code": {"enum": sorted(PROBLEMS)}, "detail": _TEXT},
        {
            "request_id": _TEXT,
            "errors": _list(_object({"pointer": _TEXT, "reason": _TEXT})),
            "sku": _TEXT,
            "available": _COUNT,
            "held": _COUNT,
            "sold": _COUNT,
            "total": _COUNT,
            "next_release_at": _MOMENT_OR_NULL,
            "seats": _list(_TEXT),
            "limit": _COUNT,
            "taken": _COUNT,
            "asked": _COUNT,
            "allowance": _COUNT,
            "free": _COUNT,
            "reacquired": {"type": "boolean"},
            "choices": _list({"enum": ["accept-shortage", "wait", "cancel"]}),
            "state": {"enum": list(_SKU_STATES)},
            "field": _TEXT,
            "reason": _TEXT,
        },
    ),
    "Hold": _object(
        {
            "id": _UUID,
            "fence": _FENCE,
            "state": {"enum": ["held", "paying", "sold", "released", "expired", "cancelled"]},
            "expires_at": _MOMENT,
            "lines": _LINES,
            "server_time": _MOMENT,
        },
        {"backordered": _COUNT},
    ),
    "Sale": _object(
        {
            "id": _UUID,
            "hold": _UUID,
            "state": {"enum": ["sold", "cancelled"]},
            "fence": _FENCE,
            "sold_at": _MOMENT,
            "lines": _LINES,
            "server_time": _MOMENT,
        },
        {"backordered": _COUNT, "cancelled_at": _MOMENT, "reason": _TEXT},
    ),
    "SaleOrHold": {"oneOf": [reference("schemas", "Sale"), reference("schemas", "Hold")]},
    "Sku": _object(
        {
            "sku": _TEXT,
            "title": _TEXT,
            "kind": {"enum": ["fungible", "seated"]},
            "state": {"enum": list(_SKU_STATES)},
            "room": _TEXT_OR_NULL,
            "total": _COUNT,
            "held": _COUNT,
            "sold": _COUNT,
            "available": _COUNT,
            "backordered": _COUNT,
            "next_release_at": _MOMENT_OR_NULL,
            "server_time": _MOMENT,
        }
    ),
    "Skus": _object({"skus": _list(reference("schemas", "Sku"))}),
    "SeatMap": _object(
        {
            "sku": _TEXT,
            "seats": _list(
                _object(
                    {
                        "seat": _TEXT,
                        "section": _TEXT,
                        "row": _TEXT,
                        "number": _COUNT,
                        "tier": _TEXT_OR_NULL,
                        "x": {"type": ["number", "null"]},
                        "y": {"type": ["number", "null"]},
                        "state": {"enum": ["available", "held", "sold", "blocked"]},
                    }
                )
            ),
        }
    ),
    "PayingHolds": _object(
        {
            "holds": _list(
                _object(
                    {
                        "id": _UUID,
                        "sku": _TEXT,
                        "quantity": _COUNT,
                        "actor": _TEXT,
                        "paying_until": _MOMENT,
                        "stuck_since": _MOMENT_OR_NULL,
                    }
                )
            )
        }
    ),
    "HoldStory": _object(
        {
            "id": _UUID,
            "sku": _TEXT,
            "state": {"enum": ["held", "paying", "sold", "released", "expired", "cancelled"]},
            "fence": _FENCE,
            "lines": _LINES,
            "quantity": _COUNT,
            "backordered": _COUNT,
            "actor": _TEXT,
            "owner": _TEXT_OR_NULL,
            "buyer": _TEXT_OR_NULL,
            "expires_at": _MOMENT,
            "paying_until": _MOMENT_OR_NULL,
            "sale": _UUID_OR_NULL,
            "events": _list(reference("schemas", "Event")),
            "now_answers": _TEXT,
        }
    ),
    "History": _object(
        {
            "sku": _TEXT,
            "entries": _list(reference("schemas", "Entry")),
            "last": {"type": "integer", "minimum": 0},
        }
    ),
    "SkuRulesOrFigures": {
        "oneOf": [
            reference("schemas", "SkuRules"),
            {
                "allOf": [reference("schemas", "Figures"), _object({"sku": _TEXT, "as_of": _MOMENT})],
            },
        ]
    },
    "AdjustmentMade": _object(
        {
            "id": _UUID,
            "sku": _TEXT,
            "kind": {"enum": ["increase", "reduce", "recount"]},
            "quantity": _COUNT,
            "delta": {"type": "integer"},
            "short": _COUNT,
            "incident": _UUID_OR_NULL,
            "total": _COUNT,
            "held": _COUNT,
            "sold": _COUNT,
            "available": _COUNT,
            "source": _TEXT,
            "reason": _TEXT,
            "occurred_at": _MOMENT_OR_NULL,
            "actor": _TEXT,
            "at": _MOMENT,
            "server_time": _MOMENT,
        }
    ),
    "Adjustments": _object(
        {
            "sku": _TEXT,
            "adjustments": _list(reference("schemas", "Adjustment")),
            "sources": _list(reference("schemas", "SourceSum")),
        }
    ),
    "Incidents": _object({"incidents": _list(reference("schemas", "Incident"))}),
    "SkuState": _object({"sku": _TEXT, "state": {"enum": list(_SKU_STATES)}, "server_time": _MOMENT}),
    "Audit": _object(
        {
            "balanced": {"type": "boolean"},
            "faults": _list(
                _object(
                    {
                        "sku": _TEXT,
                        "invariant": _TEXT,
                        "place": _TEXT,
                        "what": _TEXT,
                        "recorded": _TEXT,
                        "expected": _TEXT,
                    }
                )
            ),
            "as_of": _MOMENT,
        }
    ),
    "Health": _object({"status": {"enum": ["alive", "ready", "not-ready"]}}, {"failed": {"type": "object"}}),
}
