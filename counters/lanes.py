"""Lanes: group commit in the application. Each owns one connection, and its next statement takes everybody who queued
while the last one was committing: no timer, and one round trip on an idle system.

A statement that fails as a whole is sent again, then in halves: every verb may be repeated, so nobody is answered twice,
nothing is lost, and one bad member fails alone. What cannot be decided in time is Problem busy, never a refusal.
"""

import asyncio
import collections
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg
import msgspec
import structlog
from prometheus_client import Counter, Histogram

from chassis.database import STORE_AWAY, Pool, PooledConnection, store_away
from chassis.problems import Problem, busy
from counters.batching import Group, Queue
from counters.calls import AGAIN, OUTCOMES, RETRIES, Answer, in_drift, jitter, overloaded, statement

WAIT_SECONDS_MAX = 4.0  # no new attempt after this long: the caller has been waiting for it
DUPLICATE_SECONDS_MAX = 2.0
KEYED = ("reserve", "reserve_tail", "confirm")  # verbs that have an idempotency key
WATCH_SECONDS = 0.25
ATTEMPTS_MAX = 4
CONNECTION_SECONDS_MAX = 3.0

BATCH = Histogram(
    "fairgate_stock_batch_members",
    "Members that a statement served",
    ["verb"],
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000),
)
FULL = Counter("fairgate_stock_lane_full", "Calls that found their lane full", ["verb"])
log = structlog.get_logger()


class Member(msgspec.Struct, frozen=True, eq=False):
    """One caller in a lane. `arguments` are its element of each of the verb's arrays."""

    group: Group
    unit: UUID
    arguments: tuple[object, ...]
    since: float
    answer: "asyncio.Future[Answer]"

    def hear(self, answer: Answer) -> None:
        """Give the answer, unless the caller has gone."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, problem: Exception) -> None:
        """Say that there is no answer, unless the caller has gone."""
        if not self.answer.done():
            self.answer.set_exception(problem)


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """How many lanes a process has, how many members a statement serves, and how many may wait in a lane."""

    lanes: int = 1
    batch_max: int = 250
    queue_max: int = 1_000


class Lanes:
    """The lanes of one process: what is about the same key or hold always meets in the same one."""

    def __init__(self, pool: Pool, settings: LaneSettings) -> None:
        self._lanes = tuple(Lane(pool, settings) for _ in range(settings.lanes))

    @property
    def waiting(self) -> int:
        """How many callers wait."""
        return sum(lane.waiting for lane in self._lanes)

    @property
    def fullest(self) -> float:
        """How full the fullest lane is, from 0 to 1."""
        return max(lane.filled for lane in self._lanes)

    async def ask(self, verb: str, sku_id: int, unit: UUID, arguments: tuple[object, ...]) -> Answer:
        """What `verb` answers about `unit`, a key's slot or a hold's id. Raises Problem busy or key-in-flight."""
        return await self._lanes[spread(unit) % len(self._lanes)].ask(verb, sku_id, unit, arguments)


def full(verb: str) -> Problem:
    """The problem of a call that finds too many waiting already: it is not even sent."""
    FULL.labels(verb).inc()
    return busy("The stock has more to do than it can bear now; nothing was changed. Try again.")


def spread(unit: UUID) -> int:
    """63 bits that spread keys' slots and holds' ids over lanes and sub-counters, the same at every retry."""
    return unit.int >> 65


class Lane:
    """A queue and, while anybody waits in it, a connection that serves it."""

    def __init__(self, pool: Pool, settings: LaneSettings) -> None:
        self._pool = pool
        self._batch_max = settings.batch_max
        self._queue_max = settings.queue_max
        self._queue: Queue[Member] = Queue()
        self._sending: Group | None = None
        self._sent: frozenset[UUID] = frozenset()
        self._connection: PooledConnection | None = None
        self._running: asyncio.Task[None] | None = None
        self._watching: asyncio.TimerHandle

    @property
    def waiting(self) -> int:
        """How many callers wait for a statement."""
        return len(self._queue)

    @property
    def filled(self) -> float:
        """What share of the places in it are taken."""
        return len(self._queue) / self._queue_max

    async def ask(self, verb: str, sku_id: int, unit: UUID, arguments: tuple[object, ...]) -> Answer:
        """What `verb` answers to these arguments. Raises Problem busy (full, away, too slow) or key-in-flight."""
        if len(self._queue) >= self._queue_max:
            raise full(verb)
        loop = asyncio.get_running_loop()
        member = Member(Group(verb, sku_id), unit, arguments, time.monotonic(), loop.create_future())
        self._queue.add(member)
        if self._running is None:
            self._running = loop.create_task(self._run())
        return await member.answer

    async def _run(self) -> None:
        self._watch_later()
        try:
            while batch := self._queue.take(self._batch_max):
                here = [member for member in batch if not member.answer.done()]
                self._sending, self._sent = batch[0].group, frozenset(member.unit for member in here)
                try:
                    await self._serve(here, 1)
                except Exception:
                    log.exception("a lane's statement failed", verb=batch[0].group.verb)
                finally:
                    for member in here:
                        member.fail(overloaded())  # only whoever has not been told anything
        finally:
            self._watching.cancel()
            self._sending, self._sent = None, frozenset()
            self._running = None
            await self._hang_up()

    async def _serve(self, members: Sequence[Member], attempt: int) -> None:
        """One statement for all, and what to do when it fails."""
        for member in members:
            if self._too_late(member):
                member.fail(overloaded())
        members = [member for member in members if not member.answer.done()]
        if not members:
            return
        verb = members[0].group.verb
        try:
            rows = await self._send(members)
        except AGAIN as error:
            await self._again(members, attempt, type(error).__name__, overloaded())
        except asyncpg.IntegrityConstraintViolationError as error:
            await self._apart(members, in_drift(verb, error))
        except (asyncpg.DataError, ValueError) as error:
            await self._apart(members, error)
        except STORE_AWAY as error:
            await self._hang_up()
            await self._again(members, attempt, "store-away", store_away(error))
        else:
            for place, outcome, text in rows:
                members[place - 1].hear(Answer(outcome, text))
            for outcome, count in collections.Counter(row["outcome"] for row in rows).items():
                OUTCOMES.labels(verb, outcome).inc(count)

    async def _again(self, members: Sequence[Member], attempt: int, reason: str, problem: Problem) -> None:
        """Send once more as it was, then in halves, then give up."""
        if attempt == ATTEMPTS_MAX:
            for member in members:
                member.fail(problem)
            return
        RETRIES.labels(members[0].group.verb, reason).inc()
        await asyncio.sleep(jitter(attempt))
        for part in [members] if attempt == 1 or reason == "store-away" else _halves(members):
            await self._serve(part, attempt + 1)

    async def _apart(self, members: Sequence[Member], error: Exception) -> None:
        """Find whom the statement failed for: that one alone hears it."""
        if len(members) == 1:
            members[0].fail(error)
            return
        for half in _halves(members):
            await self._serve(half, 1)

    async def _send(self, members: Sequence[Member]) -> list[asyncpg.Record]:
        if self._connection is None:
            self._connection = await self._pool.acquire(timeout=CONNECTION_SECONDS_MAX)
        group = members[0].group
        columns = [list(column) for column in zip(*(member.arguments for member in members), strict=True)]
        BATCH.labels(group.verb).observe(len(members))
        return await self._connection.fetch(statement(group.verb, len(columns) + 1), group.sku_id, *columns)

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*STORE_AWAY):
                await self._pool.release(connection)

    def _watch_later(self) -> None:
        self._watching = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._watch)

    def _watch(self) -> None:
        """Let nobody wait for ever behind a statement that does not end."""
        for member in self._queue.remove(self._too_late):
            member.fail(overloaded())
        for member in self._queue.remove(self._too_late_for_a_duplicate):
            member.fail(_in_flight())
        self._watch_later()

    def _too_late(self, member: Member) -> bool:
        return member.answer.done() or member.since < time.monotonic() - WAIT_SECONDS_MAX

    def _too_late_for_a_duplicate(self, member: Member) -> bool:
        sent = member.group == self._sending and member.unit in self._sent
        return sent and member.group.verb in KEYED and member.since < time.monotonic() - DUPLICATE_SECONDS_MAX


def _halves(members: Sequence[Member]) -> tuple[Sequence[Member], ...]:
    middle = (len(members) + 1) // 2
    return (members[:middle], members[middle:]) if len(members) > 1 else (members,)


def _in_flight() -> Problem:
    return Problem(
        "key-in-flight",
        "A request with this key, or about this hold, is still at work: ask again.",
        headers={"Retry-After": "1"},
    )
