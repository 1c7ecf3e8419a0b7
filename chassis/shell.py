"""The shell around every app: request ids, bounded bodies, problems, health and metrics.

Handlers return answers and raise Problem; nothing that a caller sends ends in a traceback.
"""

import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.answer import Answer
from chassis.database import STORE_AWAY, store_away
from chassis.direct import DirectRoutes
from chassis.hot import Asked, Headers, HotCall, HotCalls, first_headers, refuse_doubled
from chassis.http import json_response
from chassis.intake import Intake
from chassis.problems import Problem, busy, problem_answer, problem_response
from chassis.settings import Settings
from chassis.telemetry import REQUEST_ID, Meter, metrics_page

Check = Callable[[], Awaitable[None]]
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]

BODY_SECONDS_MAX = 10.0  # for an app that has no setting for it
HOT_AT_ONCE_MAX = 256
_SOON = (1, 2, 3)  # seconds, so that those who were sent away do not all come back together
_HARMLESS_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
log = structlog.get_logger()


def create_app(
    routes: Sequence[BaseRoute],
    *,
    name: str,
    settings: Settings,
    lifespan: Lifespan | None = None,
    checks: Mapping[str, Check] | None = None,
    hot: Sequence[HotCall] = (),
    hot_at_once_max: int = HOT_AT_ONCE_MAX,
) -> "App":
    """An app of `routes` in our shell, which serves the `hot` calls itself, so many at once at most.

    `name` labels its metrics; each of `checks` raises while the app cannot serve, which turns /readyz to 503.
    """

    async def healthz(_request: Request) -> Response:
        return json_response({"status": "alive"})

    async def readyz(_request: Request) -> Response:
        failed = {label: reason for label, check in (checks or {}).items() if (reason := await _failure(check))}
        return json_response({"status": "not-ready" if failed else "ready", "failed": failed}, 503 if failed else 200)

    async def metrics(_request: Request) -> Response:
        page, content_type = metrics_page()
        return Response(page, headers={"Content-Type": content_type, "Cache-Control": "no-store"})

    own = [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]
    return App(
        [*routes, *own], name=name, settings=settings, lifespan=lifespan, hot=hot, hot_at_once_max=hot_at_once_max
    )


class App(Starlette):
    """A Starlette app whose outermost layer is our shell, where Starlette has its own for what nobody caught."""

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        *,
        name: str,
        settings: Settings,
        lifespan: Lifespan | None,
        hot: Sequence[HotCall],
        hot_at_once_max: int,
    ) -> None:
        super().__init__(routes=routes, lifespan=lifespan)
        self.router.redirect_slashes = False  # a redirect would name whatever host the caller claims
        self.hot = tuple(hot)
        self._hot_at_once_max = hot_at_once_max
        self._name = name
        self._settings = settings

    def build_middleware_stack(self) -> ASGIApp:
        handlers = {Problem: _on_problem, HTTPException: _on_http_exception}
        return Shell(
            ExceptionMiddleware(self.router, handlers=handlers),
            direct=DirectRoutes(self.router.routes),
            name=self._name,
            body_bytes_max=self._settings.body_bytes_max,
            body_seconds_max=self._settings.body_seconds_max,
            hot=self.hot,
            hot_at_once_max=self._hot_at_once_max,
        )


class Shell:
    """The outermost layer: gives each request an id, bounds its body, counts it, and catches what nobody caught."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        name: str,
        body_bytes_max: int,
        body_seconds_max: float = BODY_SECONDS_MAX,
        hot: Sequence[HotCall] = (),
        hot_at_once_max: int = HOT_AT_ONCE_MAX,
        direct: DirectRoutes | None = None,
    ) -> None:
        self.app = app
        self._direct = direct or DirectRoutes(())
        self._intake = Intake(bytes_max=body_bytes_max, seconds_max=body_seconds_max)
        self._hot = HotCalls(hot)
        self._hot_at_once = 0
        self._hot_at_once_max = hot_at_once_max
        self._meter = Meter(name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = first_headers(scope)
        request_id = _request_id(headers)
        outlet = _Outlet(send, request_id)
        found = self._hot.find(scope)
        token = REQUEST_ID.set(request_id)
        try:
            if found is None:
                await self._route(scope, self._intake.bounded(receive), outlet.send)
            else:
                refuse_doubled(scope, headers)
                await outlet.answer(await self._serve(*found, scope["method"], headers, receive))
        except ClientDisconnect:
            outlet.status = 499
        except Problem as problem:
            await outlet.answer(problem_answer(problem))
        except STORE_AWAY as error:
            log.warning("store away", error=repr(error), path=scope["path"])
            await outlet.answer(problem_answer(store_away(error)))
        except Exception:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            await outlet.answer(problem_answer(Problem("internal", "It has been logged under this request_id.")))
        finally:
            REQUEST_ID.reset(token)
        served = scope.get("endpoint") if found is None else found[0].serve
        self._meter.count(getattr(served, "__name__", "unmatched"), outlet.status, time.perf_counter() - started)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is not hot: straight to its endpoint where that is found, else through the router."""
        direct = self._direct.find(scope)
        if direct is None:
            await self.app(scope, receive, send)
            return
        scope["endpoint"], scope["path_params"] = direct
        response = await direct[0](Request(scope, receive))
        await response(scope, receive, send)

    async def _serve(self, call: HotCall, name: str, method: str, headers: Headers, receive: Receive) -> Answer:
        if method != call.method:
            raise _method_not_allowed(call.method)
        if self._hot_at_once >= self._hot_at_once_max:  # before anything is read, so that the surplus costs little
            raise busy("More is asked for at once than can be served. Try again shortly.", random.choice(_SOON))  # noqa: S311
        self._hot_at_once += 1
        try:
            return await call.serve(Asked(headers, name, receive, self._intake))
        finally:
            self._hot_at_once -= 1


class _Outlet:
    """Where a request's answer goes out: it marks it with the request's id and remembers its status."""

    __slots__ = ("_mark", "_send", "started", "status")

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.started = False
        self._mark = (b"x-request-id", request_id.encode())
        self.status = 500

    async def send(self, message: Message) -> None:
        """Pass on what an app below sends."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), self._mark]
        await self._send(message)

    async def answer(self, answer: Answer) -> None:
        """Send `answer` as a whole; nothing where an answer has begun already, as when its reader hung up on the way."""
        if self.started:
            return
        self.started = True
        self.status = answer.status
        headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body)), self._mark]
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": answer.body})


async def _failure(check: Check) -> str | None:
    try:
        await check()
    except (*STORE_AWAY, Problem) as error:
        return str(error) or type(error).__name__
    return None


def _request_id(headers: Headers) -> str:
    """The caller's own id if it is harmless, else a new one; it names a request in logs and gives no right."""
    own = headers.get(b"x-request-id")
    if own is not None and _HARMLESS_ID.fullmatch(text := own.decode("latin-1")):
        return text
    return f"{random.getrandbits(64):016x}"


def _method_not_allowed(allowed: str) -> Problem:
    return Problem("method-not-allowed", f"Allowed: {allowed}.", headers={"Allow": allowed})


def _allowed(request: Request) -> str:
    """All methods of the request's path: Starlette names those of its first route only."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    fitting = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in fitting for method in route.methods or ()}))


async def _on_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such path or method) in our words."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return problem_response(_method_not_allowed(_allowed(request)))
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return problem_response(Problem("not-found", f"There is nothing at {request.url.path}.", headers=headers))
    return problem_response(Problem("malformed", str(error.detail), headers=headers))
