"""How much a caller may send, and how long it may take: a body is bounded in bytes and in seconds.

One timer watches all bodies on their way: a timer for each would cost more than reading one.
"""

import asyncio
import time

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from chassis.problems import Problem

LOOK_SECONDS = 0.5


class Intake:
    """Reads bodies of at most `bytes_max` bytes that arrive within `seconds_max`, half a second more or less."""

    def __init__(self, *, bytes_max: int, seconds_max: float) -> None:
        self._bytes_max = bytes_max
        self._seconds_max = seconds_max
        self._waiting: dict[asyncio.Task[object], float] = {}
        self._late: set[asyncio.Task[object]] = set()
        self._watching = False

    async def read(self, receive: Receive) -> bytes:
        """The whole body. Raises Problem too-large or malformed (it came too slowly), or ClientDisconnect."""
        since = time.monotonic()
        body: bytes = b""
        while True:
            message = await self._in_time(receive, since)
            if message["type"] != "http.request":
                raise ClientDisconnect
            body += message.get("body", b"")
            self._check_size(len(body))
            if not message.get("more_body", False):
                return body

    def bounded(self, receive: Receive) -> Receive:
        """`receive`, which raises Problem once the body is too large or too slow; what follows the body is not bounded."""
        since = time.monotonic()
        received_bytes = 0
        more = True

        async def bounded() -> Message:
            nonlocal received_bytes, more
            message = await (self._in_time(receive, since) if more else receive())
            if message["type"] == "http.request":
                received_bytes += len(message.get("body", b""))
                more = message.get("more_body", False)
                self._check_size(received_bytes)
            return message

        return bounded

    def _check_size(self, received_bytes: int) -> None:
        if received_bytes > self._bytes_max:
            raise Problem("too-large", f"A body may have {self._bytes_max} bytes at most.")

    async def _in_time(self, receive: Receive, since: float) -> Message:
        task = asyncio.current_task()
        assert task is not None, "bodies are read by a request's own task"
        self._waiting[task] = since
        if not self._watching:
            self._watch()
        try:
            return await receive()
        except asyncio.CancelledError:
            if task not in self._late or task.uncancel() > 0:  # somebody else ends the task: it is not ours to answer
                raise
            raise Problem(
                "malformed",
                f"The body did not arrive within {self._seconds_max:g} seconds.",
                headers={"Connection": "close"},
            ) from None
        finally:
            del self._waiting[task]
            self._late.discard(task)

    def _watch(self) -> None:
        """Interrupt whoever has waited too long; look again as long as there is anybody to look after."""
        latest = time.monotonic() - self._seconds_max
        for task, since in self._waiting.items():
            if since < latest and task not in self._late:
                self._late.add(task)
                task.cancel()
        self._watching = bool(self._waiting)
        if self._watching:
            asyncio.get_running_loop().call_later(LOOK_SECONDS, self._watch)
