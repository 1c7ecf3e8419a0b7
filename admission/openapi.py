"""The gateway's OpenAPI 3.1 document: what exists, and nothing that does not."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.admin import HANDS, Reset
from admission.api import JoinBody
from admission.openapi_answers import ANSWERS, COUNT, TEXT, reference
from admission.recovery_api import RecoveredBody
from admission.revocations_api import Revocation
from admission.room_settings import RoomSettings
from chassis.http import json_response
from chassis.settings import Settings

_ROOM = {
    "name": "room",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,39}$"},
}
_EPOCH = {"name": "epoch", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}}
_ENTRY = {"name": "entry", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
_BEFORE = {"name": "before", "in": "query", "schema": {"type": "integer", "minimum": 1}}
_SINCE = {"name": "since", "in": "query", "schema": {"type": "string", "pattern": "^[0-9]{1,19}$"}}
_TICKET: list[dict[str, list[str]]] = [{"ticket": []}, {"ticketCookie": []}]
_PROVEN: list[dict[str, list[str]]] = [{"ticket": [], "secret": []}, {"ticketCookie": [], "secretCookie": []}]


def openapi_route(settings: Settings) -> Route:
    """GET /openapi.json."""
    document = openapi_document(settings.public_url + settings.prefix)

    async def openapi(_request: Request) -> Response:
        return json_response(document, headers={"Cache-Control": "public, max-age=60"})

    return Route("/openapi.json", openapi, methods=["GET"])


def openapi_document(server_url: str) -> dict[str, Any]:
    """The document; `server_url` is where buyers reach the gateway."""
    _, schemas = msgspec.json.schema_components(
        [JoinBody, RecoveredBody, RoomSettings, Reset, Revocation], ref_template="#/components/schemas/{name}"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairgate gateway",
            "version": "1",
            "description": "The line: rooms, tickets, passes, the gate.",
        },
        "servers": [{"url": server_url}],
        "paths": _buyer_paths()
        | _draw_paths()
        | _proxy_paths()
        | _operator_paths()
        | _revocation_paths()
        | _key_paths(),
        "components": {
            "schemas": {
                **schemas,
                **ANSWERS,
                "Room": _room(schemas["RoomSettings"]),
                "SomeSettings": _some(schemas["RoomSettings"]),
            },
            "responses": {"problem": _problem_response()},
            "securitySchemes": _security_schemes(),
        },
    }


def _buyer_paths() -> dict[str, Any]:
    return {
        "/rooms/{room}": {
            "parameters": [_ROOM],
            "get": _call("The waiting page, or its document by Accept", {200: ("The room", "Status")}, "room-page"),
        },
        "/rooms/{room}/tickets": {
            "parameters": [_ROOM],
            "post": _call(
                "Join the line",
                {201: ("A place", "Ticket"), 200: ("The place this client has already", "Ticket")},
                "join",
                body="JoinBody",
            ),
        },
        "/rooms/{room}/status": {
            "parameters": [_ROOM],
            "get": _call(
                "The public document, cacheable for a second",
                {200: ("The room", "Status"), 304: ("Unchanged", None)},
                "status",
            ),
        },
        "/rooms/{room}/place": {
            "parameters": [_ROOM],
            "get": _call("Where a ticket stands", {200: ("The place", "Place")}, "place", security=_TICKET),
        },
        "/rooms/{room}/turn": {
            "parameters": [_ROOM],
            "post": _call(
                "More time for a called ticket, as often as the room allows; within the grace of a missed one its one more turn",
                {200: ("Where the ticket stands then", "Place"), 202: ("Not called yet", "Problem")},
                "extend-turn",
                security=_PROVEN,
            ),
        },
        "/rooms/{room}/passes": {
            "parameters": [_ROOM],
            "post": _call(
                "Exchange a called ticket for a pass",
                {
                    201: ("The pass", "Pass"),
                    200: ("The same pass again", "Pass"),
                    202: ("Not yet: ask again after Retry-After", "Problem"),
                },
                "claim",
                security=_PROVEN,
            ),
            "delete": _call(
                "Leave: the slot is free at once",
                {204: ("Left", None)},
                "leave",
                security=[*_PROVEN, {"pass": []}, {"passCookie": []}],
            ),
        },
    } | _recovery_paths()


def _revocation_paths() -> dict[str, Any]:
    key: list[dict[str, list[str]]] = [{"key": []}]
    return {
        "/rooms/{room}/revocations": {
            "parameters": [_ROOM, _SINCE],
            "get": _call(
                "The passes that are refused before their time, signed",
                {200: ("A JWS of the type fairgate-revocations+jwt", "SignedList"), 304: ("Nothing new", None)},
                "signed-revocations",
            ),
        },
        "/admin/rooms/{room}/revocations": {
            "parameters": [_ROOM],
            "post": _call(
                "End a pass, a ticket or an identity's passes, for good",
                {201: ("The revocation", "Revoked"), 200: ("The revocation that stood before", "Revoked")},
                "revoke",
                body="Revocation",
                security=key,
            ),
            "get": _call(
                "What was revoked in the present epoch, newest first",
                {200: ("The revocations", "Revocations")},
                "list-revocations",
                security=key,
            ),
        },
    }


def _recovery_paths() -> dict[str, Any]:
    return {
        "/rooms/{room}/recovery": {
            "parameters": [_ROOM],
            "post": _call(
                "A one-time code to go on from another device; it voids an earlier one",
                {201: ("The code", "RecoveryCode")},
                "make-recovery-code",
                security=_PROVEN,
            ),
        },
        "/rooms/{room}/recovered": {
            "parameters": [_ROOM],
            "post": _call(
                "Go on here with the place behind a code; the device that made the code lets go of it",
                {201: ("The place", "Ticket"), 200: ("The same again for the same client_id", "Ticket")},
                "redeem-recovery-code",
                body="RecoveredBody",
            ),
        },
    }


def _draw_paths() -> dict[str, Any]:
    leaves = _call("The leaves of the tree, 32 bytes each, once its root stands", {}, "get-draw-leaves")
    octets = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    leaves["responses"]["304"] = {"description": "Unchanged"}
    leaves["responses"]["200"] = {"description": "The leaves in the order of entries", "content": octets}
    return {
        "/rooms/{room}/draw": {
            "parameters": [_ROOM, _EPOCH],
            "get": _call("The draw's proof, as far as it has come", {200: ("The proof", "Draw")}, "get-draw"),
        },
        "/rooms/{room}/draw/leaves": {"parameters": [_ROOM, _EPOCH], "get": leaves},
        "/rooms/{room}/draw/entries/{entry}": {
            "parameters": [_ROOM, _ENTRY, _EPOCH],
            "get": _call(
                "An entry's leaf, its path to the root, and its place",
                {200: ("The entry", "DrawEntry")},
                "get-draw-entry",
            ),
        },
    }


def _proxy_paths() -> dict[str, Any]:
    dialect = {"name": "dialect", "in": "query", "required": True, "schema": {"enum": ["nginx", "caddy"]}}
    answers: Mapping[int, tuple[str, str | None]] = {
        204: ("Pass on to the shop with Fairgate-Pass and Fairgate-Buyer", None),
        302: ("caddy, browsers: to the waiting page", None),
        401: ("nginx: Fairgate-Location names the waiting page", None),
        429: ("caddy, programs: join the line first", "Problem"),
    }
    return {
        "/gate/{room}": {
            "parameters": [_ROOM, dialect],
            "get": _call(
                "May this request pass to the shop?", answers, "gate", security=[{"pass": []}, {"passCookie": []}, {}]
            ),
        },
        "/.well-known/jwks.json": {"get": _call("The keys that verify passes", {200: ("The keys", "KeySet")}, "jwks")},
    }


def _operator_paths() -> dict[str, Any]:
    key: list[dict[str, list[str]]] = [{"key": []}]
    return {
        "/admin/rooms": {"get": _call("All rooms", {200: ("The rooms", "Rooms")}, "list-rooms", security=key)},
        "/admin/rooms/{room}": {
            "parameters": [_ROOM],
            "get": _call("A room's settings", {200: ("The room", "Room")}, "get-room", security=key),
            "put": _call(
                "Create or change a room; the same body twice changes nothing",
                {200: ("The room", "Room")},
                "put-room",
                body="RoomSettings",
                security=key,
            ),
            "patch": _call(
                "Change some settings and leave the others",
                {200: ("The room", "Room")},
                "change-room",
                body="SomeSettings",
                security=key,
            ),
        },
        "/admin/rooms/{room}/reset": {
            "parameters": [_ROOM],
            "post": _call(
                "Begin the room's next epoch as a draft: its tickets, places and passes end",
                {200: ("The room", "Room")},
                "reset-room",
                body="Reset",
                security=key,
            ),
        },
        "/admin/rooms/{room}/actions": {
            "parameters": [_ROOM, _BEFORE],
            "get": _call(
                "What operators did, newest first", {200: ("The actions", "Actions")}, "list-actions", security=key
            ),
        },
        "/admin/rooms/{room}/{hand}": {
            "parameters": [_ROOM, {"name": "hand", "in": "path", "required": True, "schema": {"enum": sorted(HANDS)}}],
            "post": _call(
                "Open, close, pause, resume … by hand", {200: ("The room", "Room")}, "set-room-by-hand", security=key
            ),
        },
    }


def _key_paths() -> dict[str, Any]:
    key: list[dict[str, list[str]]] = [{"key": []}]
    purpose = {"name": "purpose", "in": "path", "required": True, "schema": {"enum": ["pass", "ticket"]}}
    kid = {"name": "kid", "in": "path", "required": True, "schema": TEXT}
    return {
        "/admin/signing-keys": {
            "get": _call(
                "The keys that sign passes and tickets",
                {200: ("The keys", "SigningKeys")},
                "list-signing-keys",
                security=key,
            ),
        },
        "/admin/signing-keys/{purpose}/rotate": {
            "parameters": [purpose],
            "post": _call(
                "Publish the next key, which signs in five seconds",
                {201: ("The next key", "SigningKey"), 200: ("The one that waits already", "SigningKey")},
                "rotate-signing-key",
                security=key,
            ),
        },
        "/admin/signing-keys/{kid}/revoke": {
            "parameters": [kid],
            "post": _call(
                "End a key and everything that it signed",
                {200: ("The revoked key", "SigningKey")},
                "revoke-signing-key",
                security=key,
            ),
        },
    }


def _call(
    summary: str,
    answers: Mapping[int, tuple[str, str | None]],
    operation: str,
    *,
    body: str | None = None,
    security: list[Any] | None = None,
) -> dict[str, Any]:
    responses: dict[str, Any] = {str(status): _response(*answer) for status, answer in answers.items()}
    call: dict[str, Any] = {
        "operationId": operation,
        "summary": summary,
        "responses": responses | {"default": {"$ref": "#/components/responses/problem"}},
        "security": security or [],
    }
    if body is not None:
        call["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference(body)}}}
    return call


def _response(description: str, schema: str | None) -> dict[str, Any]:
    if schema is None:
        return {"description": description}
    media = {"Problem": "application/problem+json", "SignedList": "application/jose"}.get(schema, "application/json")
    return {"description": description, "content": {media: {"schema": reference(schema)}}}


def _problem_response() -> dict[str, Any]:
    return _response("A refusal (RFC 9457) with a stable code", "Problem")


def _security_schemes() -> dict[str, Any]:
    schemes: dict[str, Any] = {"key": {"type": "http", "scheme": "bearer", "description": "An operator's key, fgk_…"}}
    for token in ("ticket", "secret", "pass"):
        schemes[token] = {"type": "apiKey", "in": "header", "name": f"Fairgate-{token.title()}"}
        schemes[f"{token}Cookie"] = {
            "type": "apiKey",
            "in": "cookie",
            "name": f"fairgate-{token}-{{room}}",
            "description": "With the prefix __Host- over https.",
        }
    return schemes


def _room(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What GET answers: the settings, and the room's name and epoch."""
    properties = {"name": TEXT, "epoch": COUNT, **settings["properties"]}
    return {**settings, "title": "Room", "properties": properties, "required": list(properties)}


def _some(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**settings, "title": "SomeSettings", "required": [], "minProperties": 1}
