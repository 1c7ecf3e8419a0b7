"""The shop's books: which buyer has which hold, and how each payment stands, in one SQLite file that survives kill -9.

A payment leaves `pending` once; a cancelled one never becomes paid, whichever worker asks and whenever.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from chassis.database import read_text
from chassis.problems import Problem

T = TypeVar("T")
PaymentState = Literal["pending", "paid", "declined", "cancelled", "refunded"]
InquiryState = Literal["paid", "unpaid", "pending", "unknown"]

BASKETS_SHOWN_MAX = 10
LOCK_WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Payment:
    """One hold's payment, as it was begun and as it stands."""

    buyer: str
    key: str
    card: str
    state: PaymentState


class Payments:
    """The SQLite file, used by one thread of its own so that a slow disk never stops the event loop."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="payments")
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the file, creating what is missing. Raises sqlite3.Error when it cannot be used."""
        await self._call(self._open)

    async def close(self) -> None:
        """Close the file; what was answered before is on the disk already."""
        await self._call(self._close)
        self._thread.shutdown()

    async def keep_basket(self, hold: str, buyer: str, fence: int) -> None:
        """Remember the buyer's hold and its fence."""
        await self._rows("keep_basket", hold=hold, buyer=buyer, fence=fence)

    async def find_fence(self, hold: str, buyer: str) -> int | None:
        """The fence of the buyer's own hold, else None."""
        rows = await self._rows("find_fence", hold=hold, buyer=buyer)
        return rows[0][0] if rows else None

    async def list_baskets(self, buyer: str) -> list[str]:
        """The buyer's last holds, newest first."""
        return [row[0] for row in await self._rows("list_baskets", buyer=buyer, rows_max=BASKETS_SHOWN_MAX)]

    async def begin(self, hold: str, buyer: str, key: str, card: str) -> Payment:
        """Begin a payment, or find the one that was begun. Raises Problem key-reused for a key that pays another hold."""
        await self._rows("begin_payment", hold=hold, buyer=buyer, key=key, card=card)
        payment = await self.find(hold)
        if payment is None:
            raise Problem("key-reused", "This Idempotency-Key pays for another hold.")
        return payment

    async def find(self, hold: str) -> Payment | None:
        """How the hold's payment stands, None when nobody tried to pay."""
        rows = await self._rows("find_payment", hold=hold)
        return Payment(*rows[0]) if rows else None

    async def end(self, hold: str, state: Literal["paid", "declined", "cancelled"]) -> PaymentState:
        """End a pending payment; answers how it ended, which may be otherwise when somebody came first."""
        await self._rows("end_payment", hold=hold, state=state)
        return await self._state(hold)

    async def cancel(self, hold: str) -> PaymentState:
        """Make sure that the hold is not paid from now on; answers `paid` when it was already."""
        await self._rows("cancel_payment", hold=hold)
        return await self._state(hold)

    async def refund(self, hold: str) -> None:
        """Give the money back; doing it twice is one refund."""
        await self._rows("refund_payment", hold=hold)

    async def _state(self, hold: str) -> PaymentState:
        payment = await self.find(hold)
        assert payment is not None, "rows of payments are never removed"
        return payment.state

    async def _rows(self, statement: str, **parameters: str | int) -> list[tuple[Any, ...]]:
        return await self._call(lambda: self._execute(statement, parameters))

    async def _call(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _execute(self, statement: str, parameters: dict[str, str | int]) -> list[tuple[Any, ...]]:
        assert self._connection is not None, "open() comes first"
        return self._connection.execute(read_text("fairgate.shop", "sql", f"{statement}.sql"), parameters).fetchall()

    def _open(self) -> None:
        connection = sqlite3.connect(self._file, timeout=LOCK_WAIT_SECONDS, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        # In WAL mode a commit survives kill -9 so; a power cut may take the last ones, and this shop is a pretence.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(read_text("fairgate.shop", "sql", "schema.sql"))
        self._connection = connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
