"""Rooms over HTTP for operators: put, change, open and close by hand, reset, and what was done so far."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.room_settings import read_settings
from admission.rooms import Room, Rooms
from chassis.http import invalid_fields, json_response, read_json, timestamp
from chassis.keys import ApiKeys
from chassis.problems import Problem

# What an operator's hand does: the settings it changes.
HANDS: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "draft": {"phase": "draft"},
        "prequeue": {"phase": "prequeue"},
        "open": {"phase": "open"},
        "close": {"phase": "closed"},
        "schedule": {"phase": "scheduled"},
        "pause": {"paused": True},
        "resume": {"paused": False},
    }
)


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST …/reset: the epoch that ends, so that a repeat does not end the next one too."""

    epoch: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 2)]


class RoomsApi:
    """The operator's calls; each needs a key with the role operator."""

    def __init__(self, rooms: Rooms, keys: ApiKeys) -> None:
        self._rooms = rooms
        self._keys = keys

    def routes(self) -> list[Route]:
        """The routes; proxies do not mount them publicly."""
        return [
            Route("/admin/rooms", self.list, methods=["GET"]),
            Route("/admin/rooms/{room}", self.put, methods=["PUT"]),
            Route("/admin/rooms/{room}", self.get, methods=["GET"]),
            Route("/admin/rooms/{room}", self.change, methods=["PATCH"]),
            Route("/admin/rooms/{room}/actions", self.actions, methods=["GET"]),
            Route("/admin/rooms/{room}/reset", self.reset, methods=["POST"]),
            Route("/admin/rooms/{room}/{hand}", self.by_hand, methods=["POST"]),
        ]

    async def list(self, request: Request) -> Response:
        """200: all rooms by name."""
        await self._operator(request)
        return json_response({"rooms": [room_document(room) for room in await self._rooms.list()]})

    async def put(self, request: Request) -> Response:
        """200: the room as it is now, defaults included. The same body twice changes nothing."""
        actor = await self._operator(request)
        settings = read_settings(await read_json(request, dict[str, Any]))
        return json_response(room_document(await self._rooms.put(_room(request), settings, actor=actor)))

    async def get(self, request: Request) -> Response:
        """200: the room's settings, defaults included."""
        await self._operator(request)
        return json_response(room_document(await self._rooms.get(_room(request))))

    async def change(self, request: Request) -> Response:
        """200: the room with some settings changed; those that the body leaves out stay."""
        actor = await self._operator(request)
        fields = await read_json(request, dict[str, Any])
        if not fields:
            raise invalid_fields([("", "name at least one setting to change")])
        return json_response(room_document(await self._rooms.change(_room(request), fields, actor=actor)))

    async def by_hand(self, request: Request) -> Response:
        """200: the room after an operator opened, closed, paused … it; doing it twice is doing it once."""
        actor = await self._operator(request)
        hand = request.path_params["hand"]
        if hand not in HANDS:
            raise Problem("not-found", f"A room can be set by hand to: {', '.join(HANDS)}.")
        room = await self._rooms.change(_room(request), HANDS[hand], actor=actor, action=hand)
        return json_response(room_document(room))

    async def reset(self, request: Request) -> Response:
        """200: the room in its next epoch, a draft. Another epoch than the present one is invalid and ends nothing."""
        actor = await self._operator(request)
        body = await read_json(request, Reset)
        return json_response(room_document(await self._rooms.reset(_room(request), body.epoch, actor=actor)))

    async def actions(self, request: Request) -> Response:
        """200: what operators did with the room, newest first."""
        await self._operator(request)
        before = request.query_params.get("before")
        if before is not None and not (before.isascii() and before.isdigit() and len(before) < 19):
            raise invalid_fields([("/before", "must be the id of an action")])
        room = (await self._rooms.get(_room(request))).name
        actions = await self._rooms.actions(room, None if before is None else int(before))
        return json_response({"actions": [{**one, "at": timestamp(one["at"])} for one in actions]})

    async def _operator(self, request: Request) -> str:
        actor = await self._keys.actor(request, "operator")
        return f"{actor.client} ({actor.key_id})"


def room_document(room: Room) -> dict[str, object]:
    """A room's name, epoch and settings."""
    settings = msgspec.structs.asdict(room.settings)
    return {"name": room.name, "epoch": room.epoch} | {
        name: timestamp(value) if isinstance(value, datetime) else msgspec.to_builtins(value)
        for name, value in settings.items()
    }


def _room(request: Request) -> str:
    name: str = request.path_params["room"]
    return name
