"""The waiting page: the same steps as the API in plain HTML, with forms; a script only saves people from reloading."""

import hashlib
import secrets
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.book import Book, View
from admission.cookies import TICKET_SECONDS, Cookies
from admission.credentials import Credentials
from admission.jwks import key_set
from admission.languages import NAMES, Language, choose, languages
from admission.passes import PassVerifier
from admission.returns import safe_return
from admission.standing import Place, wait_when_running
from admission.status import reasons, status_document
from admission.tickets import Ticket, new_secret
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
    "Vary": "Accept, Accept-Language, Cookie",
}
RELOAD_SECONDS = 10
KEY_SET_SECONDS = 3  # less than a next key is published before it signs, so that no cache lacks a key that is in use
LANGUAGE_COOKIE, LANGUAGE_SECONDS = "fairgate-language", 30 * 86_400
STAND_STILL = ("paused", "rejecting", "sold-out", "all-held")
_NOWHERE = dict.fromkeys(("place", "ahead", "turn_ends_at", "pass_expires_at", "grace_ends_at", "extensions_left"))


class Pages:
    """What browsers see, and the public keys."""

    def __init__(
        self,
        book: Book,
        waiting_room: WaitingRoom,
        credentials: Credentials,
        cookies: Cookies,
        verifier: PassVerifier,
        prefix: str,
    ) -> None:
        self._book = book
        self._waiting_room = waiting_room
        self._credentials = credentials
        self._cookies = cookies
        self._verifier = verifier
        self._prefix = prefix
        self._pages = {name: _template(language) for name, language in languages().items()}

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
        language = self._language(request)
        refusal = self._credentials.ticket_refusal(request, view)
        response = Response(
            self._pages[language.name].render(self._words(request, view, language, ticket, place, refusal)),
            status_code=view.room.settings.queue_status_code,
            media_type="text/html",
            headers=PAGE_HEADERS,
        )
        if request.query_params.get("lang") == language.name:
            response.set_cookie(LANGUAGE_COOKIE, language.name, max_age=LANGUAGE_SECONDS, httponly=True, samesite="lax")
        if ticket is None and not self._cookies.shown_secret(request, view.room.name):
            # Made before it is needed, so that joining twice (a double click, two tabs, a lost answer) is joining once.
            self._cookies.set(response, "secret", view.room.name, new_secret(), TICKET_SECONDS)
        return response

    def _words(
        self,
        request: Request,
        view: View,
        language: Language,
        ticket: Ticket | None,
        place: Place | None,
        refusal: str | None,
    ) -> dict[str, object]:
        """What the template says."""
        revoked = self._credentials.revocation(request, view)
        status = status_document(view)
        mine = None if place is None else place.document(view.now_ms)
        base = f"{self._prefix}/rooms/{view.room.name}"
        target = safe_return(request.query_params.get("return"))
        other = next(name for name in NAMES if name != language.name)
        state = _state(place, refusal)
        return {
            "lang": language,
            "other": {
                "name": other,
                "title": NAMES[other],
                "address": f"?{urlencode({'return': target, 'lang': other})}",
            },
            "state": state,
            "status": status,
            "mine": _NOWHERE | (mine or {}),
            "entry": ticket if ticket is not None and ticket.kind == "entry" else None,
            "why": "" if revoked is None else revoked.detail,
            "ticket_id": "" if ticket is None else ticket.ticket_id,
            "wait": _wait(view, place, language),
            "attempt": secrets.token_hex(16),
            "cookies_blocked": ticket is None and request.query_params.get("joined") == "1",
            "recovered": request.query_params.get("recovered") in ("refused", "later")
            and request.query_params["recovered"],
            "reloads": state in ("entered", "waiting", "called") or (state == "join" and status["phase"] == "draft"),
            "reload_seconds": RELOAD_SECONDS,
            "status_json": orjson.dumps(status).decode(),
            "mine_json": orjson.dumps(mine).decode(),
            "words": orjson.dumps(language.words()).decode(),
            "target": target,
            "base": base,
            "style": self._asset("waiting.css"),
            "script": self._asset("waiting.js"),
            "draw_script": self._asset("draw.js"),
        }

    def _language(self, request: Request) -> Language:
        asked, kept = request.query_params.get("lang"), request.cookies.get(LANGUAGE_COOKIE)
        return languages()[choose(asked, kept, request.headers.get("accept-language", ""))]

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


def _state(place: Place | None, refusal: str | None) -> str:
    """Which part of the page is shown."""
    if place is not None:
        return place.state
    return {"moved": "moved", "revoked": "refused"}.get(refusal or "", "join")


def _wait(view: View, place: Place | None, language: Language) -> str:
    """The wait in words: from now on, or from when the line goes on; nothing is promised where nothing is known."""
    seconds = None if place is None else place.wait_seconds
    if seconds is not None:
        return language.wait(*seconds)
    if place is None or place.ahead is None or not set(reasons(view)) & set(STAND_STILL) or not view.reachable:
        return language.words()["unknown"]
    running = wait_when_running(view, place.ahead)
    return language.words()["unknown"] if running is None else language.resumed(language.wait(*running))


def _template(language: Language) -> Template:
    environment = Environment(
        loader=PackageLoader("admission"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    gettext, ngettext = language.translations.gettext, language.translations.ngettext
    environment.globals.update(_=gettext, gettext=gettext, ngettext=ngettext)
    return environment.get_template("room.html")


@cache
def _static(name: str) -> tuple[bytes, str]:
    body = files("admission").joinpath("static", name).read_bytes()
    return body, hashlib.sha256(body).hexdigest()[:12]
