"""An answer as bytes: what a hot call gives back, and what a problem becomes, before any framework is asked."""

import msgspec
from starlette.responses import Response

Headers = tuple[tuple[bytes, bytes], ...]

JSON_HEADERS: Headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class Answer(msgspec.Struct, frozen=True):
    """Status, headers (without Content-Length, which the sender knows) and body of one HTTP answer."""

    status: int
    body: bytes
    headers: Headers = JSON_HEADERS


def as_response(answer: Answer) -> Response:
    """The same answer for a Starlette handler to return."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
    return Response(answer.body, answer.status, headers)
