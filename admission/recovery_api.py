"""Going on from another device over HTTP, for programs and for plain forms: a code is made here and redeemed there."""

import secrets

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.api import ticket_document
from admission.attempts import Attempts
from admission.book import Book, View
from admission.cookies import TICKET_SECONDS, Cookies
from admission.credentials import Credentials
from admission.forms import is_form, read_form, refuse_foreign, see_other
from admission.pages import PAGE_HEADERS
from admission.recovery_codes import RecoveryCode, RecoveryCodes
from admission.returns import safe_return, with_return
from admission.tickets import CLIENT_ID, client_id_of
from chassis.http import decode_json, invalid_fields, json_response, read_json, timestamp
from chassis.problems import Problem

# For each room and worker: a crowd that moves to its phones is served, guessing 60 bits is not.
MADE_AT_ONCE, MADE_PER_SECOND = 200.0, 50.0
TRIED_AT_ONCE, TRIED_PER_SECOND = 50.0, 20.0


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST …/recovery takes a body with nothing in it, or none."""


class RecoveredBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """POST …/recovered: the code as it was typed, and the new device's client_id."""

    code: str
    client_id: str


class RecoveryApi:
    """The buyer's calls to go on from another device."""

    def __init__(
        self, book: Book, codes: RecoveryCodes, credentials: Credentials, cookies: Cookies, public_url: str, prefix: str
    ) -> None:
        self._book = book
        self._codes = codes
        self._credentials = credentials
        self._cookies = cookies
        self._public_url = public_url
        self._prefix = prefix
        self._made = Attempts(burst=MADE_AT_ONCE, per_second=MADE_PER_SECOND)
        self._tried = Attempts(burst=TRIED_AT_ONCE, per_second=TRIED_PER_SECOND)
        self._page = Environment(
            loader=PackageLoader("admission"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        ).get_template("recovery.html")

    def routes(self) -> list[Route]:
        """The routes below the prefix."""
        return [
            Route("/rooms/{room}/recovery", self.make, methods=["POST"]),
            Route("/rooms/{room}/recovered", self.redeem, methods=["POST"]),
        ]

    async def make(self, request: Request) -> Response:
        """201 with a code for the shown ticket and its secret; a form gets a page that shows it."""
        view = await self._view(request)
        form = is_form(request)
        if form:
            await read_form(request)
        else:
            if "fairgate-ticket" not in request.headers:  # a browser sends its cookies whoever asks it to
                refuse_foreign(request)
            body = await request.body()
            if body:
                decode_json(body, NoBody)
        ticket = self._credentials.proven_ticket(request, view)
        self._made.take(view.room.name)
        made = await self._codes.make(view, ticket)
        if form:
            return self._show(view, made)
        document = {"code": made.code, "expires_at": timestamp(made.expires_at), "url": self._address(view, made.code)}
        return json_response(document, 201)

    async def redeem(self, request: Request) -> Response:
        """201 with the place's ticket for the new device, 200 for the same device again; a form gets cookies and 303."""
        view = await self._view(request)
        if is_form(request):
            return await self._redeem_by_form(request, view)
        body = await read_json(request, RecoveredBody)
        if not CLIENT_ID.fullmatch(body.client_id):
            raise invalid_fields([("/client_id", "must be base64url(SHA-256(secret)): 43 characters")])
        self._tried.take(view.room.name)
        entered = await self._codes.redeem(view, body.code, body.client_id)
        return json_response(ticket_document(view, entered), 200 if entered.repeated else 201)

    async def _redeem_by_form(self, request: Request, view: View) -> Response:
        """Redeem with a secret made here. What goes wrong is for the page to say: `recovered` in its query names it."""
        form = await read_form(request)
        typed = form.get("code", "")
        secret = self._codes.secret_for(view, typed, form.get("attempt", "") or secrets.token_hex(16))
        page = with_return(f"{self._prefix}/rooms/{view.room.name}", safe_return(form.get("return")))
        try:
            self._tried.take(view.room.name)
            entered = await self._codes.redeem(view, typed, client_id_of(secret))
        except Problem as problem:
            outcome = {"recovery-refused": "refused", "too-many-requests": "later"}.get(problem.code)
            if outcome is None:
                raise
            return see_other(f"{page}{'&' if '?' in page else '?'}recovered={outcome}")
        response = see_other(page)
        self._cookies.set(response, "ticket", view.room.name, entered.token, TICKET_SECONDS)
        self._cookies.set(response, "secret", view.room.name, secret, TICKET_SECONDS)
        return response

    def _show(self, view: View, made: RecoveryCode) -> Response:
        body = self._page.render(
            title=view.room.settings.title,
            code=made.code,
            until=timestamp(made.expires_at),
            page=f"{self._prefix}/rooms/{view.room.name}",
            address=f"{self._public_url}{self._prefix}/rooms/{view.room.name}",
            style=f"{self._prefix}/static/waiting.css",
        )
        return Response(body, media_type="text/html", headers=PAGE_HEADERS)

    def _address(self, view: View, code: str) -> str:
        """Where the page fills the code in by itself: a fragment is never sent to a server."""
        return f"{self._public_url}{self._prefix}/rooms/{view.room.name}#recovery={code}"

    async def _view(self, request: Request) -> View:
        view = await self._book.view(request.path_params["room"])
        await self._credentials.learn_keys(request, view.room.name)
        return view
