"""Rooms over HTTP for operators: put, get, list."""

from datetime import datetime
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.room_settings import read_settings
from admission.rooms import Room, Rooms
from chassis.http import json_response, read_json, timestamp
from chassis.keys import ApiKeys


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
        ]

    async def list(self, request: Request) -> Response:
        """200: all rooms by name."""
        await self._keys.actor(request, "operator")
        return json_response({"rooms": [room_document(room) for room in await self._rooms.list()]})

    async def put(self, request: Request) -> Response:
        """200: the room as it is now, defaults included. The same body twice changes nothing."""
        await self._keys.actor(request, "operator")
        settings = read_settings(await read_json(request, dict[str, Any]))
        return json_response(room_document(await self._rooms.put(request.path_params["room"], settings)))

    async def get(self, request: Request) -> Response:
        """200: the room's settings, defaults included."""
        await self._keys.actor(request, "operator")
        return json_response(room_document(await self._rooms.get(request.path_params["room"])))


def room_document(room: Room) -> dict[str, object]:
    """A room's name, epoch and settings."""
    settings = msgspec.structs.asdict(room.settings)
    return {"name": room.name, "epoch": room.epoch} | {
        name: timestamp(value) if isinstance(value, datetime) else value for name, value in settings.items()
    }
