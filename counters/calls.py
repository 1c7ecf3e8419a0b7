"""Calls the stock's SQL functions: again where a call was refused as a whole or lost, but only for so long.

What cannot be decided in time is Problem busy, never a refusal; it left no effect, or one that its key finds again.
"""

import asyncio
import random
import time
from functools import cache
from typing import NamedTuple

import asyncpg
import msgspec
import orjson
import structlog
from prometheus_client import Counter

from chassis.database import STORE_AWAY, Pool, store_away
from chassis.problems import Problem, busy
from counters.functions import verbs_schema
from counters.rules import Done, Refusal, Refused

ATTEMPTS_MAX = 4
DECIDE_SECONDS_MAX = 4.0  # no new attempt after this long: the caller has been waiting for it
CONNECTION_SECONDS_MAX = 5.0
RETRY_SECONDS = 0.02

# The statement as a whole was refused and changed nothing: it may simply be sent again.
AGAIN = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)
OUTCOMES = Counter(
    "fairgate_stock_outcomes", "What verbs answered; `tail` is a visit to the exact path", ["verb", "outcome"]
)
RETRIES = Counter(
    "fairgate_stock_retries", "Calls of a verb that were sent again, by verb and reason", ["verb", "reason"]
)
DRIFT = Counter("fairgate_stock_drift_refusals", "Calls that a constraint stopped because the books disagree", ["verb"])
_DONE = frozenset({"granted", "done", "replayed", "created", "changed", "unchanged"})
log = structlog.get_logger()


class Answer(NamedTuple):
    """What a verb answered one caller: the outcome's code, and its document or facts as JSON text."""

    outcome: str
    text: str | None

    def judged(self) -> Done | Refused:
        """What a caller hears. Each code stands in the head of its verb's file."""
        if self.outcome in _DONE:
            return Done(self.text or "{}", replayed=self.outcome == "replayed")
        return Refused(msgspec.convert(self.outcome, Refusal), orjson.loads(self.text) if self.text else {})


class Verbs:
    """The SQL functions of this version, each called in a transaction of its own."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def call(self, verb: str, *arguments: object) -> list[asyncpg.Record]:
        """The rows that `verb` answers. Every verb may be repeated, so a lost answer is asked for again.

        Raises Problem busy when the store is away or too busy, or when a constraint stops a move that the books, being
        in drift, do not allow: nothing was changed, and the repair makes it possible again.
        """
        give_up_at = time.monotonic() + DECIDE_SECONDS_MAX
        attempt = 0
        while True:
            attempt += 1
            try:
                async with self._pool.acquire(timeout=CONNECTION_SECONDS_MAX) as connection:
                    return await connection.fetch(statement(verb, len(arguments)), *arguments)
            except AGAIN as error:
                failure = overloaded()
                reason = type(error).__name__
            except STORE_AWAY as error:
                failure = store_away(error)
                reason = "store-away"
            except asyncpg.IntegrityConstraintViolationError as error:
                raise in_drift(verb, error) from error
            if attempt == ATTEMPTS_MAX or time.monotonic() >= give_up_at:
                raise failure
            RETRIES.labels(verb, reason).inc()
            await asyncio.sleep(jitter(attempt))

    async def decide(self, verb: str, *arguments: object) -> Answer:
        """The one outcome of `verb`; raises as `call` does."""
        (row,) = await self.call(verb, *arguments)
        OUTCOMES.labels(verb, row["outcome"]).inc()
        return Answer(row["outcome"], row["answer"])


@cache
def statement(verb: str, arguments: int) -> str:
    """The statement that calls `verb` of this version with so many arguments."""
    places = ", ".join(f"${place + 1}" for place in range(arguments))
    return f"SELECT * FROM {verbs_schema()}.{verb}({places})"  # noqa: S608 - our own names only


def jitter(attempt: int) -> float:
    """Seconds to wait after the attempt of that number, spread so that those who met do not meet again."""
    return random.uniform(0.5, 1.5) * RETRY_SECONDS * (1 << attempt)  # noqa: S311 - jitter


def overloaded() -> Problem:
    """The problem of a call that could not be decided in time."""
    return busy("The stock is too busy to decide this now; nothing was changed. Try again.")


def in_drift(verb: str, error: asyncpg.IntegrityConstraintViolationError) -> Problem:
    """The problem of a call that a constraint stopped: the books disagree, and the repair comes."""
    DRIFT.labels(verb).inc()
    log.error(
        "a constraint stopped a verb: the books are in drift",
        verb=verb,
        constraint=error.constraint_name,
        error=str(error),
    )
    return busy("The books of this SKU are being repaired; nothing was changed. Try again.", 5)
