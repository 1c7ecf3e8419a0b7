"""The gate: whether a request may pass to the shop, in the words of the proxy that asks. Touches no store.

nginx's auth_request understands 2xx, 401 and 403; Caddy's forward_auth hands any other answer to the browser as it is.
"""

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.cookies import Cookies
from admission.credentials import Credentials
from admission.metrics import GATE_ANSWERS
from admission.renewals import Renewals
from admission.returns import safe_return, with_return
from admission.room_settings import ROOM_NAME
from chassis.problems import Problem, problem_response

RETRY_SECONDS = 10
# What each proxy calls the address and the method that the browser asked for.
ASKED_FOR = {"nginx": ("x-original-uri", "x-original-method"), "caddy": ("x-forwarded-uri", "x-forwarded-method")}


class Gate:
    """Answers a proxy's question about one request."""

    def __init__(self, credentials: Credentials, cookies: Cookies, renewals: Renewals, prefix: str) -> None:
        self._credentials = credentials
        self._cookies = cookies
        self._renewals = renewals
        self._prefix = prefix

    def routes(self) -> list[Route]:
        """The gate's own address; proxies reach it directly, buyers never need to."""
        return [Route("/gate/{room}", self.answer, methods=["GET"])]

    async def answer(self, request: Request) -> Response:
        """204 with Fairgate-Pass and Fairgate-Buyer, and a cookie with a longer pass for an active buyer, or the dialect's way to the waiting page."""
        room, dialect = request.path_params["room"], request.query_params.get("dialect", "")
        if dialect not in ASKED_FOR:
            raise Problem("malformed", f"dialect must be one of {', '.join(ASKED_FOR)}.")
        if not ROOM_NAME.fullmatch(room):
            raise Problem("not-found", "There is no such room.")
        self._credentials.require_keys()
        found = await self._credentials.live_pass(request, room)
        GATE_ANSWERS.labels(dialect, "refused" if found is None else "passed").inc()
        if found is None:
            return self._refuse(request, room, dialect)
        longer = self._renewals.note(found[0])
        granted, token = found if longer is None else longer
        buyer = granted.subject if granted.identity is None else granted.identity
        headers = {"Fairgate-Pass": token, "Fairgate-Buyer": buyer, "Cache-Control": "no-store"}
        response = Response(status_code=204, headers=headers)
        if longer is not None:
            self._cookies.set(response, "pass", room, token, granted.expires_at - int(time.time()))
        return response

    def _refuse(self, request: Request, room: str, dialect: str) -> Response:
        uri_header, method_header = ASKED_FOR[dialect]
        reads = request.headers.get(method_header, "GET").upper() in ("GET", "HEAD")
        # What was asked by any other method cannot be repeated by going back to its address.
        target = safe_return(request.headers.get(uri_header)) if reads else "/"
        location = with_return(f"{self._prefix}/rooms/{room}", target)
        if dialect == "nginx":
            return Response(status_code=401, headers={"Fairgate-Location": location, "Cache-Control": "no-store"})
        if reads and "text/html" in request.headers.get("accept", ""):
            return Response(status_code=302, headers={"Location": location, "Cache-Control": "no-store"})
        problem = Problem(
            "queue",
            "Join the line first; the pass it gives opens this address.",
            headers={"Retry-After": str(RETRY_SECONDS)},
            room=room,
            location=location,
        )
        return problem_response(problem)
