"""The HTTP shell around every app: request ids, bounded bodies, problems, health and metrics.

Handlers return answers and raise Problem; nothing that a caller sends ends in a traceback.
"""

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import orjson
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chassis.database import STORE_AWAY, store_away
from chassis.problems import Problem, problem_response
from chassis.settings import Settings
from chassis.telemetry import REQUEST_SECONDS, REQUESTS, metrics_page

T = TypeVar("T")
Check = Callable[[], Awaitable[None]]
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PATH_IN_ERROR = re.compile(r"^(?P<reason>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
log = structlog.get_logger()


def create_app(
    routes: Sequence[BaseRoute],
    *,
    name: str,
    settings: Settings,
    lifespan: Lifespan | None = None,
    checks: Mapping[str, Check] | None = None,
) -> Starlette:
    """A Starlette app of `routes` in our shell.

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

    return Starlette(
        routes=[
            *routes,
            Route("/healthz", healthz, methods=["GET"]),
            Route("/readyz", readyz, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ],
        lifespan=lifespan,
        middleware=[Middleware(Shell, name=name, body_bytes_max=settings.body_bytes_max)],
        exception_handlers={Problem: _on_problem, HTTPException: _on_http_exception},
    )


class Shell:
    """The outermost middleware: gives each request an id, bounds its body, counts it, and catches what nobody caught."""

    def __init__(self, app: ASGIApp, *, name: str, body_bytes_max: int) -> None:
        self.app = app
        self.name = name
        self.body_bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        status = 500

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self.app(scope, self._bounded(receive), send_marked)
            except ClientDisconnect:
                status = 499
            except Problem as problem:
                await problem_response(problem)(scope, receive, send_marked)
            except STORE_AWAY as error:
                log.warning("store away", error=repr(error), path=scope["path"])
                await problem_response(store_away(error))(scope, receive, send_marked)
            except Exception:
                log.exception("request failed", method=scope["method"], path=scope["path"])
                await problem_response(Problem("internal", "It has been logged under this request_id."))(
                    scope, receive, send_marked
                )
        route = getattr(scope.get("endpoint"), "__name__", "unmatched")
        REQUESTS.labels(self.name, route, status).inc()
        REQUEST_SECONDS.labels(self.name, route).observe(time.perf_counter() - started)

    def _bounded(self, receive: Receive) -> Receive:
        received_bytes = 0

        async def bounded() -> Message:
            nonlocal received_bytes
            message = await receive()
            if message["type"] == "http.request":
                received_bytes += len(message.get("body", b""))
                if received_bytes > self.body_bytes_max:
                    raise Problem("too-large", f"A body may have {self.body_bytes_max} bytes at most.")
            return message

        return bounded


async def read_json(request: Request, kind: type[T]) -> T:
    """The request's JSON body as `kind` (a msgspec Struct).

    Raises Problem: unsupported-media-type, too-large, malformed (not JSON), or invalid with a pointer to the field.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Problem("unsupported-media-type", "Send the body as JSON with Content-Type: application/json.")
    body = await request.body()
    return decode_json(body, kind)


def decode_json(body: bytes, kind: type[T]) -> T:
    """`body` as `kind`; raises Problem malformed or invalid."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem("malformed", f"The body is not JSON: {error}") from None


def invalid(error: msgspec.ValidationError) -> Problem:
    """The problem for a body that is JSON but not what the call takes; msgspec's path becomes a JSON pointer."""
    found = _PATH_IN_ERROR.match(str(error))
    reason = found["reason"] if found else str(error)
    path = (found["path"] if found else None) or "$"
    pointer = re.sub(r"\[(\d+|\.\.\.)\]|\.([^.\[\]]+)", lambda part: f"/{part[1] or part[2]}", path.removeprefix("$"))
    return invalid_fields([(pointer, reason)])


def invalid_fields(errors: Sequence[tuple[str, str]]) -> Problem:
    """The problem that names each wrong field: `errors` are (JSON pointer, reason) pairs."""
    detail = "; ".join(f"{pointer or 'the body'}: {reason}" for pointer, reason in errors)
    return Problem("invalid", detail, errors=[{"pointer": pointer, "reason": reason} for pointer, reason in errors])


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer for this caller alone (no-store, unless `headers` say otherwise)."""
    return Response(
        orjson.dumps(body),
        status_code=status,
        media_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: 2026-11-30T10:00:00.000Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _failure(check: Check) -> str | None:
    try:
        await check()
    except (*STORE_AWAY, Problem) as error:
        return str(error) or type(error).__name__
    return None


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value.decode("latin-1")):
            return str(value.decode("latin-1"))
    return secrets.token_hex(8)


async def _on_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """Starlette's own refusals (no such path or method) in our words."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        return problem_response(Problem("method-not-allowed", f"Allowed: {headers.get('Allow', '')}.", headers=headers))
    if error.status_code == 404:
        return problem_response(Problem("not-found", f"There is nothing at {request.url.path}.", headers=headers))
    return problem_response(Problem("malformed", str(error.detail), headers=headers))
