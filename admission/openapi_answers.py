"""What the gateway's calls answer, as schemas of its OpenAPI document."""

from collections.abc import Mapping
from typing import Any, get_args

from admission.calling import Calling
from admission.status import Reason
from chassis.problems import PROBLEMS


def reference(name: str) -> dict[str, str]:
    """A schema of the document, by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def object_of(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An object with these properties."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


_MOMENT = {"type": "string", "format": "date-time"}
_MOMENT_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
COUNT = {"type": "integer", "minimum": 0}
COUNT_OR_NULL = {"type": ["integer", "null"], "minimum": 0}
TEXT = {"type": "string"}
_PHASE = {"enum": ["draft", "prequeue", "standby", "open", "paused", "closed"]}
_LINE = {"enum": ["reachable", "away"]}
_POLL = ("near_seconds", "far_seconds", "share", "jitter", "place_seconds", "spread_seconds")

_HEX = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_HEX_OR_NULL = {"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"}
_STAGES: dict[str, Any] = {
    "stage": {"enum": ["committed", "entries-closed", "root", "beacon", "drawn"]},
    "commitment": _HEX,
    "committed_at": _MOMENT,
    "prequeue_at": _MOMENT_OR_NULL,
    "beacon": {"type": ["object", "null"]},
    "last_entry": COUNT_OR_NULL,
    "entries_closed_at": _MOMENT_OR_NULL,
    "root": _HEX_OR_NULL,
    "root_at": _MOMENT_OR_NULL,
    "beacon_value": _HEX_OR_NULL,
    "beacon_at": _MOMENT_OR_NULL,
    "beacon_missed": {"type": "boolean"},
    "entries": COUNT_OR_NULL,
    "secret": _HEX_OR_NULL,
    "drawn_at": _MOMENT_OR_NULL,
}

ANSWERS: dict[str, Any] = {
    "Problem": object_of(
        {"type": TEXT, "title": TEXT, "status": COUNT, "code": {"enum": sorted(PROBLEMS)}, "detail": TEXT},
        {"request_id": TEXT},
    ),
    "Ticket": object_of(
        {"ticket": TEXT, "ticket_id": TEXT, "phase": _PHASE, "server_time": _MOMENT},
        {"entry": COUNT, "number": COUNT},
    ),
    "Place": object_of(
        {
            "state": {"enum": ["entered", "waiting", "called", "admitted", "missed", "ended"]},
            "place": COUNT_OR_NULL,
            "ahead": COUNT_OR_NULL,
            "wait_seconds": {"type": ["array", "null"], "items": COUNT, "minItems": 2, "maxItems": 2},
            "poll_after_seconds": {"type": "number"},
            "turn_ends_at": _MOMENT_OR_NULL,
            "extensions_left": COUNT_OR_NULL,
            "grace_ends_at": _MOMENT_OR_NULL,
            "pass_expires_at": _MOMENT_OR_NULL,
            "line": _LINE,
            "server_time": _MOMENT,
        }
    ),
    "Pass": object_of({"pass": TEXT, "expires_at": _MOMENT, "server_time": _MOMENT}),
    "Status": object_of(
        {
            "room": TEXT,
            "epoch": COUNT,
            "generation": COUNT_OR_NULL,
            "title": TEXT,
            "method": {"enum": ["draw", "fifo", "passthrough", "reject"]},
            "phase": _PHASE,
            "prequeue_at": _MOMENT_OR_NULL,
            "opens_at": _MOMENT_OR_NULL,
            "closes_at": _MOMENT_OR_NULL,
            "serving": {"type": ["object", "null"]},
            "called": COUNT,
            "issued": COUNT,
            "passed_over": COUNT,
            "waiting": COUNT,
            "active": COUNT_OR_NULL,
            "admitted": COUNT_OR_NULL,
            "admitted_away": COUNT,
            "passed_through": COUNT_OR_NULL,
            "rate_per_minute": COUNT,
            "called_per_minute": {"type": ["number", "null"], "minimum": 0},
            "seconds_per_place": {"type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
            "reasons": {"type": "array", "items": {"enum": list(get_args(Reason))}},
            "paused": {"type": "boolean"},
            "message": {"type": ["string", "null"]},
            "calling": {
                "oneOf": [
                    object_of(
                        {
                            "state": {"enum": [*get_args(Calling), "no-controller"]},
                            "rate_per_minute": {"type": "number"},
                        }
                    ),
                    {"type": "null"},
                ]
            },
            "stock": {
                "oneOf": [
                    object_of({"free": COUNT, "held": COUNT, "age_seconds": {"type": "number"}}),
                    {"const": "absent"},
                ]
            },
            "sold_out": {"type": ["boolean", "null"]},
            "draw": {"oneOf": [object_of(_STAGES), {"type": "null"}]},
            "line": _LINE,
            "poll": object_of({name: {"type": "number"} for name in _POLL}),
            "as_of": _MOMENT,
        }
    ),
    "RecoveryCode": object_of({"code": TEXT, "expires_at": _MOMENT, "url": {"type": "string", "format": "uri"}}),
    "SigningKeys": object_of({"keys": {"type": "array", "items": reference("SigningKey")}}),
    "SigningKey": object_of(
        {
            "kid": TEXT,
            "purpose": {"enum": ["pass", "ticket"]},
            "state": {"enum": ["next", "current", "retired", "revoked"]},
            "created_at": _MOMENT,
            "activates_at": _MOMENT_OR_NULL,
            "retired_at": _MOMENT_OR_NULL,
            "revoked_at": _MOMENT_OR_NULL,
        }
    ),
    "Draw": object_of(
        {
            "format": {"const": "fairgate draw 1"},
            "room": TEXT,
            "epoch": COUNT,
            **_STAGES,
            "gaps": {"type": "array", "items": {"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2}},
            "restored": {"type": "array", "items": COUNT},
            "binds": {"type": "array", "items": TEXT},
        }
    ),
    "DrawEntry": object_of(
        {
            "room": TEXT,
            "epoch": COUNT,
            "entry": COUNT,
            "leaf": _HEX,
            "empty": {"type": "boolean"},
            "passed_over": {"type": "boolean"},
            "path": {"type": "array", "items": _HEX},
            "last_entry": COUNT,
            "root": _HEX,
            "place": COUNT_OR_NULL,
        }
    ),
    "Actions": object_of(
        {
            "actions": {
                "type": "array",
                "items": object_of(
                    {
                        "id": COUNT,
                        "at": _MOMENT,
                        "actor": TEXT,
                        "action": TEXT,
                        "room": {"type": ["string", "null"]},
                        "detail": {"type": "object"},
                    }
                ),
            }
        }
    ),
    "SignedList": TEXT,
    "Revoked": object_of(
        {"kind": {"enum": ["pass", "ticket", "identity"]}, "subject": TEXT, "reason": TEXT, "at": _MOMENT}
    ),
    "Revocations": object_of({"revocations": {"type": "array", "items": reference("Revoked")}}),
    "Rooms": object_of({"rooms": {"type": "array", "items": reference("Room")}}),
    "KeySet": object_of({"keys": {"type": "array", "items": {"type": "object"}}}),
}
