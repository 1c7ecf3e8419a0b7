"""How a shopper meets the service: requests, answers, and patience with what is not answered. No Locust in here."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

REPEAT_SECONDS_MAX = 40.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; status 0 when none came."""

    status: int
    document: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def undecided(self) -> bool:
        """Whether nothing was decided: no answer, or a server that is away or too busy to say."""
        return self.status == 0 or self.status >= 500 or self.status == 429

    def retry_after_seconds(self) -> float:
        """When to ask again: as the answer says (RFC 9110, section 10.2.3), within reason and with jitter."""
        said = self.headers.get("retry-after", "")
        seconds = float(said) if said.isascii() and said.isdecimal() else 0.5
        return min(max(seconds, 0.2), 5.0) * random.uniform(0.8, 1.2)  # noqa: S311 - jitter


@dataclass(frozen=True, slots=True)
class Seen:
    """A public document, and how long ago it was fetched."""

    document: dict[str, Any]
    age_seconds: float


class Client(Protocol):
    """What a walk needs of the world: requests, waiting, and what all shoppers of a process look up together."""

    def request(self, method: str, path: str, name: str, headers: Mapping[str, str], body: object = None) -> Reply:
        """One request; `name` groups it in statistics. Never raises for what the network does."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def together(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Do both at once, as a double click does."""
        ...

    def status(self) -> Seen | None:
        """The room's public document, not older than a cache in front may keep it; None when it cannot be had."""
        ...

    def free_seats(self) -> list[str] | None:
        """Seats that were free a moment ago; None when the map cannot be had."""
        ...


def repeat_until_decided(client: Client, ask: Callable[[], Reply]) -> Reply:
    """Ask again while nothing is decided, for REPEAT_SECONDS_MAX; the last answer either way."""
    until = time.monotonic() + REPEAT_SECONDS_MAX
    while True:
        reply = ask()
        if not reply.undecided or time.monotonic() > until:
            return reply
        client.sleep(reply.retry_after_seconds())
