"""The waiting page: the same steps as the API in plain HTML, with forms; a script only saves people from reloading."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.book import Book
from admission.credentials import Credentials
from admission.jwks import key_set
from admission.passes import PassVerifier
from admission.returns import safe_return
from admission.room_settings import phase_of
from admission.status import moment, status_document
from admission.waiting_room import WaitingRoom
from chassis.http import json_response
from chassis.problems import Problem

STATIC = {"draw.js": "text/javascript", "waiting.css": "text/css", "waiting.js": "text/javascript"}
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Vary": "Accept, Cookie",
}
RELOAD_SECONDS = 10
KEY_SET_SECONDS = 3  # less than a next key is published before it signs, so that no cache lacks a key that is in use


class Pages:
    """What browsers see, and the public keys."""

    def __init__(
        self, book: Book, waiting_room: WaitingRoom, credentials: Credentials, verifier: PassVerifier, prefix: str
    ) -> None:
        self._book = book
        self._waiting_room = waiting_room
        self._credentials = credentials
        self._verifier = verifier
        self._prefix = prefix
        self._templates = Environment(
            loader=PackageLoader("admission"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )

    def routes(self) -> list[Route]:
        """The routes below the prefix."""
        return [
            Route("/rooms/{room}", self.room, methods=["GET"]),
            Route("/static/{name}", self.static, methods=["GET"]),
            Route("/.well-known/jwks.json", self.jwks, methods=["GET"]),
        ]

    async def room(self, request: Request) -> Response:
        """The waiting page for browsers; for whoever asks for JSON the room's document and the caller's place."""
        view = await self._book.view(request.path_params["room"])
        await self._credentials.learn_keys(request, view.room.name)
        ticket = self._credentials.find_ticket(request, view)
        place = None if ticket is None else await self._waiting_room.place(view, ticket)
        if "text/html" not in request.headers.get("accept", ""):
            mine = None if place is None else place.document(view.now_ms)
            return json_response({**status_document(view), "place": mine}, headers={"Vary": "Accept, Cookie"})
        page = self._templates.get_template("room.html").render(
            room=view.room,
            status=status_document(view),
            phase=phase_of(view.room.settings, view.now_ms),
            place=place,
            wait=None if place is None or place.wait_seconds is None else wait_words(*place.wait_seconds),
            turn_ends_at=None if place is None or place.turn_ends_ms is None else moment(place.turn_ends_ms),
            pass_expires_at=None
            if place is None or place.pass_expires_at is None
            else moment(place.pass_expires_at * 1000),
            target=safe_return(request.query_params.get("return")),
            base=f"{self._prefix}/rooms/{view.room.name}",
            style=self._asset("waiting.css"),
            script=self._asset("waiting.js"),
            reload_seconds=RELOAD_SECONDS,
        )
        return Response(
            page, status_code=view.room.settings.queue_status_code, media_type="text/html", headers=PAGE_HEADERS
        )

    async def static(self, request: Request) -> Response:
        """The page's style and script, kept by browsers for good: their address changes with their bytes."""
        name = request.path_params["name"]
        if name not in STATIC:
            raise Problem("not-found", "There is no such file.")
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
        return Response(_static(name)[0], media_type=STATIC[name], headers=headers)

    async def jwks(self, _request: Request) -> Response:
        """The public keys that verify passes (RFC 7517)."""
        document: dict[str, Any] = key_set(self._verifier.public_keys)
        return json_response(document, headers={"Cache-Control": f"public, max-age={KEY_SET_SECONDS}"})

    def _asset(self, name: str) -> str:
        return f"{self._prefix}/static/{name}?{_static(name)[1]}"


def wait_words(low_seconds: int, high_seconds: int) -> str:
    """A range of seconds in words that promise no more than is known."""
    if high_seconds <= 60:
        return "less than a minute"
    low, high = low_seconds // 60, -(-high_seconds // 60)
    if low in (0, high):
        return f"up to {high} minutes" if high > 1 else "about a minute"
    return f"{low} to {high} minutes"


@cache
def _static(name: str) -> tuple[bytes, str]:
    body = files("admission").joinpath("static", name).read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:12]
