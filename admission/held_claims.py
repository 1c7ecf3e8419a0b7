"""Claims that come a moment too early for the rate: kept until their token is due, so that nobody has to ask again.

Each held claim waits for a token of its own, so that a crowd at the door asks Redis about once each. Redis still decides:
a claim that is held has nothing yet, and is asked again like any other.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from admission.batches import Batches
from admission.line import ClaimAnswer, Delayed, Handle

HELD_MS_MAX = 2_000
HELD_CLAIMS_MAX = 1_000  # of one worker; whoever comes then is answered at once, as whoever would wait for too long
JITTER_SECONDS = (0.002, 0.02)  # behind the token, so that the workers do not ask for it in the same moment
Gone = Callable[[], Awaitable[object]]  # ends when whoever asked has hung up


@dataclass(slots=True)
class DueTokens:
    """The tokens of a room's bucket that held claims wait for (pure); moments and waits in any one unit."""

    last: float = 0.0

    def due_again(self, now: float, wait: float, spacing: float) -> float:
        """When to ask again for a claim that came for its own token and found it `wait` away.

        A token that is only late is waited for, and so are those behind it: at the end of the row it would be left in a
        bucket that may hold one, and lost. One that somebody else has taken is another's now.
        """
        if wait >= spacing / 2:
            return self.next_due(now, wait, spacing)
        self.last += wait
        return now + wait

    def next_due(self, now: float, wait: float, spacing: float) -> float:
        """When the next token is there that nobody waits for: `wait` from now at the earliest, `spacing` behind the last."""
        return max(now + wait, self.last + spacing)


class HeldClaims:
    """The claims of one worker, batched; `send` asks Redis for many at once."""

    def __init__(
        self,
        send: Callable[[Handle, Sequence[tuple[str, int]]], Awaitable[Sequence[ClaimAnswer]]],
        *,
        held_max: int = HELD_CLAIMS_MAX,
    ) -> None:
        self._batches: Batches[Handle, tuple[str, int], ClaimAnswer] = Batches(send)
        self._held_max = held_max
        self._held: set[tuple[Handle, str]] = set()
        self._due: dict[Handle, DueTokens] = {}

    async def claim(
        self, handle: Handle, ticket_id: str, place: int, pace_per_minute: float, gone: Gone
    ) -> ClaimAnswer:
        """What Redis answers, asked again for up to HELD_MS_MAX while only the rate refuses; not for one who is `gone`.

        A ticket is held once: a second claim of it meanwhile is answered at once. Raises LineAway, and Problem busy.
        """
        until, asked_again = time.monotonic() + HELD_MS_MAX / 1000, False
        while True:
            answer = await self._batches.ask(handle, (ticket_id, place))
            if not isinstance(answer, Delayed) or answer.reason != "rate":
                return answer
            held, now = (handle, ticket_id), time.monotonic()
            tokens = self._due.get(handle, DueTokens())
            find_due = tokens.due_again if asked_again else tokens.next_due
            due = find_due(now, answer.wait_seconds, 60 / pace_per_minute)
            if due > until or held in self._held or len(self._held) >= self._held_max:
                return answer
            tokens.last, asked_again = max(tokens.last, due), True
            self._due[handle] = tokens
            self._held.add(held)
            try:
                if await _hangs_up(gone, due - now + random.uniform(*JITTER_SECONDS)):  # noqa: S311 - no secret
                    return answer
            finally:
                self._held.discard(held)
                if not self._held:
                    self._due.clear()


async def _hangs_up(gone: Gone, seconds: float) -> bool:
    """Wait for so long, and no longer than until the caller has hung up: whether that came first."""
    watching = asyncio.ensure_future(gone())
    try:
        done, _ = await asyncio.wait({watching}, timeout=seconds)
    finally:
        watching.cancel()
    return bool(done)
