"""Finds most routes by a look-up instead of trying one pattern after another, which costs more than the answer does.

A route whose path has at most one name in it, at its end or before its last part, is called without the router; what is
not found here goes through the router as ever.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

Endpoint = Callable[[Request], Awaitable[Response]]
_PATH = re.compile(r"(?P<head>[^{}]*?)(?:/\{(?P<name>\w+)\}(?:/(?P<tail>[\w.-]+))?)?")


class DirectRoutes:
    """The routes that can be found directly, the first of each method and path."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._plain: dict[tuple[str, str], Endpoint] = {}
        self._ending: dict[tuple[str, str], tuple[Endpoint, str]] = {}
        self._inner: dict[tuple[str, str, str], tuple[Endpoint, str]] = {}
        for route in routes:
            found = _PATH.fullmatch(route.path) if isinstance(route, Route) else None
            if isinstance(route, Route) and found is not None and inspect.iscoroutinefunction(route.endpoint):
                for method in route.methods or ():
                    self._add(method, route.endpoint, found)

    def find(self, scope: Scope) -> tuple[Endpoint, dict[str, str]] | None:
        """The endpoint for the request's method and path, and the names in the path."""
        method, path = scope["method"], scope["path"].removeprefix(scope["root_path"])
        plain = self._plain.get((method, path))
        if plain is not None:
            return plain, {}
        head, _, last = path.rpartition("/")
        group, _, middle = head.rpartition("/")
        inner = self._inner.get((method, group, last))
        if inner is not None and middle:
            return inner[0], {inner[1]: middle}
        ending = self._ending.get((method, head))
        return (ending[0], {ending[1]: last}) if ending is not None and last else None

    def _add(self, method: str, endpoint: Endpoint, path: re.Match[str]) -> None:
        head, name, tail = path["head"], path["name"], path["tail"]
        if name is None:
            self._plain.setdefault((method, head), endpoint)
        elif tail is None:
            self._ending.setdefault((method, head), (endpoint, name))
        else:
            self._inner.setdefault((method, head, tail), (endpoint, name))
