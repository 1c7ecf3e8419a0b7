"""The short road: hot calls are plain functions from what was asked to an answer, served before the router sees them.

They are held to everything that the shell promises of any other call.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.types import Receive, Scope

from chassis.answer import Answer
from chassis.http import decode, must_be_json
from chassis.intake import Intake
from chassis.problems import Problem

_NAMED = re.compile(r"(.*)/{\w+}/(\w+)")
T = TypeVar("T")
Headers = Mapping[bytes, bytes]
_ONCE = (b"idempotency-key", b"authorization", b"fairgate-pass", b"content-type")


class Asked:
    """One request: its headers, `name` (what stands in its path's place for a name, or ""), and its body when asked for."""

    __slots__ = ("_intake", "_receive", "headers", "name")

    def __init__(self, headers: Headers, name: str, receive: Receive, intake: Intake) -> None:
        self.headers = headers
        self.name = name
        self._receive = receive
        self._intake = intake

    def header(self, name: bytes) -> str | None:
        """The header of that lower-case name."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def json(self, decoder: msgspec.json.Decoder[T]) -> T:
        """The body. Raises Problem: unsupported-media-type, too-large, malformed, or invalid with a pointer to the field."""
        must_be_json(self.header(b"content-type"))
        return decode(await self._intake.read(self._receive), decoder)


@dataclass(frozen=True, slots=True)
class HotCall:
    """A call of `path`, which may have a name in the last place but one: /v1/holds/{hold_id}/confirm.

    `routed`: other methods than `method` are for the router, which has routes of that path; else there are none.
    """

    path: str
    serve: Callable[[Asked], Awaitable[Answer]]
    method: str = "POST"
    routed: bool = False


class HotCalls:
    """The hot calls of a process, found by two slices and a look-up."""

    def __init__(self, calls: Sequence[HotCall]) -> None:
        self._plain = {call.path: call for call in calls if "{" not in call.path}
        self._named = {(group, verb): call for call in calls for group, verb in _NAMED.findall(call.path)}

    def find(self, scope: Scope) -> tuple[HotCall, str] | None:
        """The call at the request's path and the name in the path; None when it is not a hot one, or for the router."""
        path: str = scope["path"].removeprefix(scope["root_path"])
        call = self._plain.get(path)
        if call is not None and not (call.routed and call.method != scope["method"]):
            return call, ""
        head, _, verb = path.rpartition("/")
        group, _, name = head.rpartition("/")
        call = self._named.get((group, verb)) if name else None
        if call is None or (call.routed and call.method != scope["method"]):
            return None
        return call, name


def first_headers(scope: Scope) -> Headers:
    """The request's headers by lower-case name, the first of each."""
    return dict(reversed(scope["headers"]))


def refuse_doubled(scope: Scope, headers: Headers) -> None:
    """Raise Problem malformed where a header that decides something stands twice: which of them is meant?"""
    if len(headers) < len(scope["headers"]):
        names = [name for name, _ in scope["headers"]]
        for name in _ONCE:
            if names.count(name) > 1:
                raise Problem("malformed", f"The header {name.decode()} stands there twice: send it once.")
