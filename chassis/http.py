"""What handlers read and write: JSON bodies as the types that describe them, answers, and moments."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import orjson
from starlette.requests import Request
from starlette.responses import Response

from chassis.problems import Problem

T = TypeVar("T")

_PATH_IN_ERROR = re.compile(r"^(?P<reason>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)


async def read_json(request: Request, kind: type[T]) -> T:
    """The request's JSON body as `kind` (a msgspec Struct).

    Raises Problem: unsupported-media-type, too-large, malformed (not JSON), or invalid with a pointer to the field.
    """
    must_be_json(request.headers.get("content-type"))
    return decode_json(await request.body(), kind)


def must_be_json(content_type: str | None) -> None:
    """Raise Problem unsupported-media-type unless the header says JSON, whatever its parameters."""
    if content_type == "application/json":
        return
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise Problem("unsupported-media-type", "Send the body as JSON with Content-Type: application/json.")


def decode_json(body: bytes, kind: type[T]) -> T:
    """`body` as `kind`; raises Problem malformed or invalid."""
    return decode(body, msgspec.json.Decoder(kind))


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """`body` as the decoder's type; raises Problem malformed or invalid."""
    try:
        return decoder.decode(body)
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
