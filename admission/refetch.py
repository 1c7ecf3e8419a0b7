"""Asks again for what a token names and we do not know yet: one reading at a time, and at most one a second."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from chassis.database import STORE_AWAY
from chassis.problems import Problem

REFETCH_SECONDS = 1.0


class Refetch:
    """A bounded reading: tokens with made-up key ids cost Postgres one statement a second, however many come."""

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._began_at: float | None = None
        self._reading: asyncio.Future[bool] | None = None

    async def once(self) -> bool:
        """Read again, or wait for the reading that is under way: whether anything was read.

        False, at once, when the last reading ended within the last second, and when the store is away.
        """
        if self._reading is None:
            now = time.monotonic()
            if self._began_at is not None and now - self._began_at < REFETCH_SECONDS:
                return False
            self._began_at = now
            self._reading = asyncio.ensure_future(self._read())
            self._reading.add_done_callback(self._ended)
        return await asyncio.shield(self._reading)

    async def _read(self) -> bool:
        with suppress(*STORE_AWAY, Problem):
            await self._refresh()
            return True
        return False

    def _ended(self, _reading: asyncio.Future[bool]) -> None:
        self._reading = None
