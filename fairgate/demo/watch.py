"""Looks at a running sale once or twice a second: the line by its public status, the stock by one SQL statement."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import httpx

from chassis.database import STORE_AWAY, Pool, read_text

RATE_WINDOW_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SkuFigures:
    """One SKU now. `off` counts sub-counters that disagree with their own holds and sales: it must read 0."""

    name: str
    kind: str
    total: int
    held: int
    sold: int
    returned: int
    due: int
    paying: int
    levels: tuple[int, ...]
    off: int

    @property
    def free(self) -> int:
        return self.total - self.held - self.sold


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole sale now; None where a store could not be asked."""

    phase: str | None
    waiting: int | None
    active: int | None
    admitted: int | None
    admitted_per_second: float | None
    rate_per_second: float | None
    skus: tuple[SkuFigures, ...] | None


class Watcher:
    """Takes snapshots; remembers a few seconds of admissions to tell their pace."""

    def __init__(self, pool: Pool, client: httpx.AsyncClient, status_url: str, skus: tuple[str, ...]) -> None:
        self._pool = pool
        self._client = client
        self._status_url = status_url
        self._skus = skus
        self._admissions: deque[tuple[float, int]] = deque()

    async def look(self, now: float) -> Snapshot:
        """A snapshot; `now` is a monotonic clock in seconds."""
        status, skus = await self._status(), await self._stock()
        if status is None or status["admitted"] is None:
            return Snapshot(None if status is None else status["phase"], None, None, None, None, None, skus)
        issued, admitted = int(status["issued"]), int(status["admitted"])
        return Snapshot(
            phase=status["phase"],
            waiting=max(0, issued - int(status["called"])),
            active=status["active"],
            admitted=admitted,
            admitted_per_second=self._pace(now, admitted),
            rate_per_second=status["rate_per_minute"] / 60,
            skus=skus,
        )

    async def _status(self) -> dict[str, Any] | None:
        try:
            response = await self._client.get(self._status_url)
            return dict(response.json()) if response.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            return None

    async def _stock(self) -> tuple[SkuFigures, ...] | None:
        try:
            rows = await self._pool.fetch(read_text("fairgate", "sql", "watch.sql"), list(self._skus))
        except STORE_AWAY:
            return None
        return tuple(SkuFigures(**{**row, "levels": tuple(row["levels"])}) for row in rows)

    def _pace(self, now: float, admitted: int) -> float:
        self._admissions.append((now, admitted))
        while now - self._admissions[0][0] > RATE_WINDOW_SECONDS:
            self._admissions.popleft()
        (first_at, first), (last_at, last) = self._admissions[0], self._admissions[-1]
        return (last - first) / (last_at - first_at) if last_at > first_at else 0.0
