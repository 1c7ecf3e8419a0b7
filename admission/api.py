"""The line over HTTP for programs and for plain forms: tickets, status, place, passes."""

import hashlib
import time
from urllib.parse import parse_qs

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from admission.book import Book, View
from admission.cookies import TICKET_SECONDS, Cookies
from admission.credentials import Credentials
from admission.returns import safe_return, with_return
from admission.room_settings import phase_of
from admission.status import moment, status_document
from admission.tickets import CLIENT_ID, client_id_of, new_secret
from admission.waiting_room import Admitted, Entered, WaitingRoom
from chassis.http import decode_json, invalid_fields, json_response, read_json
from chassis.problems import Problem

STATUS_SECONDS = 0.5  # a document is made at most this often for each room; caches keep it for a second
FORM = "application/x-www-form-urlencoded"


class JoinBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST …/tickets: base64url(SHA-256(secret)) of a secret of 256 random bits."""

    client_id: str


class Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A body with nothing in it."""


class LineApi:
    """The buyer's calls."""

    def __init__(
        self, book: Book, waiting_room: WaitingRoom, credentials: Credentials, cookies: Cookies, prefix: str
    ) -> None:
        self._book = book
        self._waiting_room = waiting_room
        self._credentials = credentials
        self._cookies = cookies
        self._prefix = prefix
        self._documents: dict[str, tuple[float, bytes, str]] = {}

    def routes(self) -> list[Route]:
        """The routes below the prefix."""
        return [
            Route("/rooms/{room}/tickets", self.join, methods=["POST"]),
            Route("/rooms/{room}/status", self.status, methods=["GET"]),
            Route("/rooms/{room}/place", self.place, methods=["GET"]),
            Route("/rooms/{room}/passes", self.claim, methods=["POST"]),
            Route("/rooms/{room}/passes", self.leave, methods=["DELETE"]),
            Route("/rooms/{room}/leave", self.leave_by_form, methods=["POST"]),
        ]

    async def join(self, request: Request) -> Response:
        """201 with a ticket, 200 with the same place for a client that joined before; a form gets cookies and 303."""
        view = await self._view(request)
        shown = self._credentials.find_ticket(request, view)
        if _is_form(request):
            return await self._join_by_form(request, view)
        body = await read_json(request, JoinBody)
        if not CLIENT_ID.fullmatch(body.client_id):
            raise invalid_fields([("/client_id", "must be base64url(SHA-256(secret)): 43 characters")])
        entered = await self._waiting_room.join(view, body.client_id, shown)
        return json_response(_ticket_document(view, entered), 200 if entered.repeated else 201)

    async def status(self, request: Request) -> Response:
        """The public document; the same bytes for everybody for a second."""
        view = await self._view(request)
        made_at, body, tag = self._documents.get(view.room.name, (0.0, b"", ""))
        now = time.monotonic()
        if now - made_at > STATUS_SECONDS:
            body = orjson.dumps(status_document(view))
            tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
            self._documents[view.room.name] = (now, body, tag)
        headers = {"ETag": tag, "Cache-Control": "public, max-age=1, s-maxage=1, stale-while-revalidate=5"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    async def place(self, request: Request) -> Response:
        """Where the ticket stands."""
        view = await self._view(request)
        place = await self._waiting_room.place(view, self._credentials.ticket(request, view))
        return json_response(place.document(view.now_ms))

    async def claim(self, request: Request) -> Response:
        """201 with a pass, 200 with the same pass again; a form gets the cookie and goes on to where it came from."""
        view = await self._view(request)
        if _is_form(request):
            return await self._claim_by_form(request, view)
        if "fairgate-ticket" not in request.headers:  # a browser sends its cookies whoever asks it to
            _refuse_foreign(request)
        body = await request.body()
        if body:
            decode_json(body, Empty)
        admitted = await self._waiting_room.claim(view, self._credentials.proven_ticket(request, view))
        response = json_response(
            {
                "pass": admitted.token,
                "expires_at": moment(admitted.granted.expires_at * 1000),
                "server_time": moment(view.now_ms),
            },
            200 if admitted.repeated else 201,
        )
        if "fairgate-ticket" not in request.headers:  # a browser, which showed its cookies: the gate will look for one
            self._give_pass(response, admitted)
        return response

    async def leave(self, request: Request) -> Response:
        """204: the slot is free and the pass refused. By the pass alone (a shop has it), or by ticket and secret."""
        view = await self._view(request)
        await self._leave(request, view)
        response = Response(status_code=204, headers={"Cache-Control": "no-store"})
        self._cookies.drop(response, "pass", view.room.name)
        return response

    async def leave_by_form(self, request: Request) -> Response:
        """Leave, for pages without JavaScript: 303 to the shop's front page. The place in line is given up too."""
        view = await self._view(request)
        await _read_form(request)
        await self._leave(request, view)
        response = _see_other("/")
        for token in ("pass", "ticket", "secret"):
            self._cookies.drop(response, token, view.room.name)
        return response

    async def _leave(self, request: Request, view: View) -> None:
        found = self._credentials.find_pass(request, view.room.name)
        if found is not None:
            await self._waiting_room.leave(view, found[0].subject, found[0])
        elif not self._credentials.was_admitted(request, view.room.name):  # else the slot is free already: a repeat
            ticket = self._credentials.proven_ticket(request, view)
            await self._waiting_room.leave(view, ticket.ticket_id, None)

    async def _join_by_form(self, request: Request, view: View) -> Response:
        """Join with a secret made here, for browsers: ticket and secret become cookies that no script can read."""
        form = await _read_form(request)
        response = _see_other(self._page(view, form.get("return")))
        if form.get("again") != "1" and self._credentials.find_ticket(request, view) is not None:
            return response  # a reload or a double click: the place in line is kept
        secret = new_secret()
        entered = await self._waiting_room.join(view, client_id_of(secret), None)
        self._cookies.set(response, "ticket", view.room.name, entered.token, TICKET_SECONDS)
        self._cookies.set(response, "secret", view.room.name, secret, TICKET_SECONDS)
        return response

    async def _claim_by_form(self, request: Request, view: View) -> Response:
        form = await _read_form(request)
        target = form.get("return")
        try:
            admitted = await self._waiting_room.claim(view, self._credentials.proven_ticket(request, view))
        except Problem as problem:
            if problem.code in ("not-called", "turn-missed", "ticket-required", "ticket-refused"):
                return _see_other(self._page(view, target))  # the page says what is the matter
            raise
        response = _see_other(safe_return(target))
        self._give_pass(response, admitted)
        return response

    def _give_pass(self, response: Response, admitted: Admitted) -> None:
        seconds = admitted.granted.expires_at - int(time.time())
        self._cookies.set(response, "pass", admitted.granted.room, admitted.token, seconds)

    def _page(self, view: View, target: str | None) -> str:
        return with_return(f"{self._prefix}/rooms/{view.room.name}", safe_return(target))

    async def _view(self, request: Request) -> View:
        return await self._book.view(request.path_params["room"])


def _ticket_document(view: View, entered: Entered) -> dict[str, object]:
    return {
        "ticket": entered.token,
        "ticket_id": entered.ticket.ticket_id,
        "phase": phase_of(view.room.settings, view.now_ms),
        entered.ticket.kind: entered.ticket.index,
        "server_time": moment(view.now_ms),
    }


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM


def _refuse_foreign(request: Request) -> None:
    """Raise Problem foreign-origin for what another site made the browser send."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    same_host = origin is None or origin.partition("://")[2] == request.headers.get("host")
    if site not in (None, "same-origin", "none") or not same_host:
        raise Problem("foreign-origin", "This was sent from another site, so nothing was done.")


async def _read_form(request: Request) -> dict[str, str]:
    """The form's fields, the first of each name. Raises Problem foreign-origin for a form that another site sent."""
    _refuse_foreign(request)
    try:
        fields = parse_qs((await request.body()).decode(), max_num_fields=20)
    except ValueError as error:
        raise Problem("malformed", f"The form cannot be read: {error}") from None
    return {name: values[0] for name, values in fields.items()}


def _see_other(target: str) -> RedirectResponse:
    return RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
