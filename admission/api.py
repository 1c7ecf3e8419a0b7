"""The line over HTTP for programs and for plain forms: tickets, status, place, passes."""

import hashlib
import time

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.book import Book, View
from admission.cookies import TICKET_SECONDS, Cookies
from admission.credentials import Credentials
from admission.forms import is_form, read_form, refuse_foreign, see_other
from admission.returns import safe_return, with_return
from admission.room_settings import phase_of
from admission.status import moment, status_document
from admission.tickets import CLIENT_ID, client_id_of, new_secret, next_secret
from admission.waiting_room import Admitted, Entered, WaitingRoom
from chassis.answer import Answer, as_response
from chassis.hot import Asked, HotCall
from chassis.http import decode_json, invalid_fields, json_response, read_json
from chassis.problems import Problem

STATUS_SECONDS = 0.5  # a document is made at most this often for each room
# A cache may show a document for two seconds at most, the second one while it fetches the next.
STATUS_CACHING = b"public, max-age=1, s-maxage=1, stale-while-revalidate=1"
_NO_DOCUMENT = (0.0, Answer(503, b""), Answer(503, b""))  # so old that it is made before it is shown
SAID_BY_THE_PAGE = ("not-called", "turn-missed", "extension-limit", "ticket-required", "ticket-refused")


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
        self._documents: dict[str, tuple[float, Answer, Answer]] = {}

    def routes(self) -> list[Route]:
        """The routes below the prefix."""
        return [
            Route("/rooms/{room}/tickets", self.join, methods=["POST"]),
            Route("/rooms/{room}/status", self.status, methods=["GET"]),
            Route("/rooms/{room}/place", self.place, methods=["GET"]),
            Route("/rooms/{room}/turn", self.extend, methods=["POST"]),
            Route("/rooms/{room}/passes", self.claim, methods=["POST"]),
            Route("/rooms/{room}/passes", self.leave, methods=["DELETE"]),
            Route("/rooms/{room}/leave", self.leave_by_form, methods=["POST"]),
        ]

    async def join(self, request: Request) -> Response:
        """201 with a ticket, 200 with the same place for a client that joined before; a form gets cookies and 303."""
        view = await self._view(request)
        shown = self._credentials.find_ticket(request, view)
        if is_form(request):
            return await self._join_by_form(request, view)
        body = await read_json(request, JoinBody)
        if not CLIENT_ID.fullmatch(body.client_id):
            raise invalid_fields([("/client_id", "must be base64url(SHA-256(secret)): 43 characters")])
        entered = await self._waiting_room.join(view, body.client_id, shown)
        return json_response(ticket_document(view, entered), 200 if entered.repeated else 201)

    def hot(self) -> list[HotCall]:
        """What a crowd asks for most, answered without a framework."""
        return [HotCall("/rooms/{room}/status", self.hot_status, method="GET", routed=True)]

    async def status(self, request: Request) -> Response:
        """The public document for other methods than GET."""
        return as_response(await self._status(request.path_params["room"], request.headers.get("if-none-match")))

    async def hot_status(self, asked: Asked) -> Answer:
        """The public document; the same bytes for everybody for a moment."""
        return await self._status(asked.name, asked.header(b"if-none-match"))

    async def _status(self, room: str, known: str | None) -> Answer:
        view = await self._book.view(room)
        made_at, document, unchanged = self._documents.get(view.room.name, _NO_DOCUMENT)
        now = time.monotonic()
        if now - made_at > STATUS_SECONDS:
            body = orjson.dumps(status_document(view))
            tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'.encode()
            headers = ((b"etag", tag), (b"cache-control", STATUS_CACHING))
            document = Answer(200, body, ((b"content-type", b"application/json"), *headers))
            unchanged = Answer(304, b"", headers)
            self._documents[view.room.name] = (now, document, unchanged)
        return unchanged if known is not None and unchanged.headers[0][1].decode() in known else document

    async def place(self, request: Request) -> Response:
        """Where the ticket stands."""
        view = await self._view(request)
        place = await self._waiting_room.place(view, self._credentials.ticket(request, view))
        return json_response(place.document(view.now_ms))

    async def extend(self, request: Request) -> Response:
        """200 with where the ticket stands after its turn got more time; a form gets 303 back to the page."""
        view = await self._view(request)
        if is_form(request):
            return await self._extend_by_form(request, view)
        await _read_empty(request)
        place = await self._waiting_room.extend(view, self._credentials.proven_ticket(request, view))
        return json_response(place.document(view.now_ms))

    async def claim(self, request: Request) -> Response:
        """201 with a pass, 200 with the same pass again; a form gets the cookie and goes on to where it came from."""
        view = await self._view(request)
        if is_form(request):
            return await self._claim_by_form(request, view)
        await _read_empty(request)
        admitted = await self._claim(request, view)
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
        await read_form(request)
        await self._leave(request, view)
        response = see_other("/")
        for token in ("pass", "ticket", "secret"):
            self._cookies.drop(response, token, view.room.name)
        return response

    async def _leave(self, request: Request, view: View) -> None:
        found = await self._credentials.live_pass(request, view.room.name)
        if found is not None:
            await self._waiting_room.leave(view, found[0].subject, found[0])
            return
        # One that is over may be an early pass of a slot that was renewed since; for a repeat the slot is free already.
        past = self._credentials.past_pass(request, view.room.name)
        ticket_id = self._credentials.proven_ticket(request, view).ticket_id if past is None else past.subject
        await self._waiting_room.leave(view, ticket_id, None)

    async def _join_by_form(self, request: Request, view: View) -> Response:
        """Join with a secret made here, for browsers: ticket and secret become cookies that no script can read."""
        form = await read_form(request)
        shown = self._credentials.find_ticket(request, view)
        again = shown is not None and form.get("again") == shown.ticket_id
        kept = self._cookies.shown_secret(request, view.room.name)
        page = self._page(view, form.get("return"))
        if shown is not None and not again:
            return see_other(page)  # a reload or a double click: the place in line is kept
        secret = self._secret_for(request, view, kept, again=again)
        entered = await self._waiting_room.join(view, client_id_of(secret), None)
        # A browser that has no cookie of ours yet may keep none: the page will see.
        response = see_other(page if kept else f"{page}{'&' if '?' in page else '?'}joined=1")
        self._cookies.set(response, "ticket", view.room.name, entered.token, TICKET_SECONDS)
        self._cookies.set(response, "secret", view.room.name, secret, TICKET_SECONDS)
        return response

    def _secret_for(self, request: Request, view: View, kept: str | None, *, again: bool) -> str:
        """The browser's own secret, so that sending the form twice is joining once; the next one for another place."""
        if kept is None:
            return new_secret()
        given_up = self._credentials.ticket_refusal(request, view) in ("moved", "revoked")
        return next_secret(kept) if again or given_up else kept

    async def _claim_by_form(self, request: Request, view: View) -> Response:
        form = await read_form(request)
        target = form.get("return")
        try:
            admitted = await self._claim(request, view)
        except Problem as problem:
            if problem.code in SAID_BY_THE_PAGE:
                return see_other(self._page(view, target))
            raise
        response = see_other(safe_return(target))
        self._give_pass(response, admitted)
        return response

    async def _extend_by_form(self, request: Request, view: View) -> Response:
        form = await read_form(request)
        try:
            await self._waiting_room.extend(view, self._credentials.proven_ticket(request, view))
        except Problem as problem:
            if problem.code not in SAID_BY_THE_PAGE:
                raise
        return see_other(self._page(view, form.get("return")))

    async def _claim(self, request: Request, view: View) -> Admitted:
        ticket = self._credentials.proven_ticket(request, view)
        return await self._waiting_room.claim(view, ticket, lambda: _hung_up(request))

    def _give_pass(self, response: Response, admitted: Admitted) -> None:
        seconds = admitted.granted.expires_at - int(time.time())
        self._cookies.set(response, "pass", admitted.granted.room, admitted.token, seconds)

    def _page(self, view: View, target: str | None) -> str:
        return with_return(f"{self._prefix}/rooms/{view.room.name}", safe_return(target))

    async def _view(self, request: Request) -> View:
        view = await self._book.view(request.path_params["room"])
        await self._credentials.learn_keys(request, view.room.name)
        return view


def ticket_document(view: View, entered: Entered) -> dict[str, object]:
    """A place in line as its client needs it."""
    return {
        "ticket": entered.token,
        "ticket_id": entered.ticket.ticket_id,
        "phase": phase_of(view.room.settings, view.now_ms),
        entered.ticket.kind: entered.ticket.index,
        "server_time": moment(view.now_ms),
    }


async def _hung_up(request: Request) -> None:
    """Ends when the caller has closed the connection. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read_empty(request: Request) -> None:
    """Take a body with nothing in it, or none. Raises Problem foreign-origin for what another site made a browser send."""
    if "fairgate-ticket" not in request.headers:  # a browser sends its cookies whoever asks it to
        refuse_foreign(request)
    body = await request.body()
    if body:
        decode_json(body, Empty)
