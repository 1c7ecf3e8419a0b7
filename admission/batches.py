"""Natural batches: what is asked while the last call is under way goes out as one call, in the order it was asked.

There is no timer: on an idle worker a question is one round trip. The queue is bounded; whoever finds it full is told to
come back.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from chassis.problems import busy

BATCH_MAX = 200
QUEUE_MAX = 500  # a wait of seconds on a slow worker: whoever comes later is told at once
SOON_SECONDS = (1, 2, 3, 4, 5)  # so that those who were sent away do not all come back together
H = TypeVar("H", bound=Hashable)
Q = TypeVar("Q")
A = TypeVar("A")


class Batches(Generic[H, Q, A]):
    """Questions of one kind, batched by whom they are for; `send` answers many at once, each in its place."""

    def __init__(
        self,
        send: Callable[[H, Sequence[Q]], Awaitable[Sequence[A]]],
        *,
        batch_max: int = BATCH_MAX,
        queue_max: int = QUEUE_MAX,
    ) -> None:
        self._send = send
        self._batch_max = batch_max
        self._queue_max = queue_max
        self._waiting = 0
        self._forming: dict[H, list[Q]] = {}
        self._last: dict[H, asyncio.Task[Sequence[A]]] = {}

    async def ask(self, whom: H, question: Q) -> A:
        """The answer to `question`. Raises Problem busy when too many wait, and whatever `send` raises for its batch."""
        if self._waiting >= self._queue_max:
            raise busy("More ask at once than can be answered. Your place is safe; try again shortly.", _soon())
        forming = self._forming.get(whom)
        if forming is None or len(forming) >= self._batch_max:
            forming = self._forming[whom] = []
            self._last[whom] = asyncio.create_task(self._answer(whom, forming, self._last.get(whom)))
        at = len(forming)
        forming.append(question)
        self._waiting += 1
        try:
            answers = await asyncio.shield(self._last[whom])  # whoever goes away leaves the others' call alone
        finally:
            self._waiting -= 1
        return answers[at]

    async def _answer(self, whom: H, questions: list[Q], before: asyncio.Task[Sequence[A]] | None) -> Sequence[A]:
        """One call for `questions`, once the call before has ended, well or not."""
        if before is not None:
            await asyncio.wait([before])
        if self._forming.get(whom) is questions:
            del self._forming[whom]
        try:
            return await self._send(whom, questions)
        finally:
            if self._last[whom] is asyncio.current_task():
                del self._last[whom]


def _soon() -> int:
    return random.choice(SOON_SECONDS)  # noqa: S311 - spreads load, guards nothing
