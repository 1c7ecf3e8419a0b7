"""How often something may be tried: a token bucket for each room in one worker."""

import time

from chassis.problems import Problem


class Attempts:
    """At most `burst` tries at once, and `per_second` more as time goes on; the bounds are each room's own."""

    def __init__(self, *, burst: float, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, room: str) -> None:
        """One try in an existing room. Raises Problem too-many-requests, with Retry-After, when none is left."""
        now = time.monotonic()
        left, at = self._left.get(room, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        if left < 1:
            wait = max(1, round((1 - left) / self._per_second))
            raise Problem(
                "too-many-requests", "This is tried too often. Wait a little.", headers={"Retry-After": str(wait)}
            )
        self._left[room] = (left - 1, now)
