"""The loop runner: repeats a job until told to stop, and survives whatever the job meets."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from chassis.database import STORE_AWAY
from chassis.problems import Problem
from chassis.telemetry import LOOP_RUNS

BACKOFF_SECONDS_MAX = 10.0
log = structlog.get_logger()


class Loop:
    """Repeats `run_once` every `interval_seconds`; after a failure it waits longer each time, with jitter."""

    def __init__(self, name: str, run_once: Callable[[], Awaitable[object]], interval_seconds: float) -> None:
        self.name = name
        self.interval_seconds = interval_seconds
        self._run_once = run_once
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set; a pass under way is finished first."""
        while not stop.is_set():
            wait_seconds = await self._pass()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), wait_seconds)

    async def _pass(self) -> float:
        try:
            await self._run_once()
        except (*STORE_AWAY, Problem) as error:
            outcome = "store-away"
            log.warning("loop waits for a store", loop=self.name, error=repr(error))
        except Exception:
            outcome = "failed"
            log.exception("loop failed", loop=self.name)
        else:
            self._failures = 0
            LOOP_RUNS.labels(self.name, "done").inc()
            return self.interval_seconds
        self._failures += 1
        LOOP_RUNS.labels(self.name, outcome).inc()
        longest = min(BACKOFF_SECONDS_MAX, max(self.interval_seconds, 0.1) * 2**self._failures)
        return random.uniform(longest / 2, longest)  # noqa: S311 - jitter, not a secret
