"""Revocation by operators: of a pass, a ticket or an identity, noted in Postgres first, then acted on by every worker.

Each gateway worker reads each second what counts no more, refuses it from then on with the reason, and frees its slots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import structlog

from admission.book import Book
from admission.line import Line
from admission.passes import pass_id
from admission.redis_bond import LineAway
from admission.rooms import Rooms, note_action
from admission.tickets import TICKET_ID, Ticket
from chassis.database import Pool, read_text
from chassis.http import invalid_fields
from chassis.problems import Problem

Kind = Literal["pass", "ticket", "identity"]
LISTED_MAX = 200
FREED_MAX = 500
PASS_LIFE_SECONDS_MAX = 86_400 + 3_600  # the longest pass a room may give, and clocks that differ
TURN = 1
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Revoked:
    """A revocation as it stands; `repeated` when it stood before."""

    kind: Kind
    subject: str
    reason: str
    at: datetime
    repeated: bool


class Revocations:
    """What operators revoke, room by room, in the room's present epoch."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def revoke(self, room_name: str, kind: Kind, subject: str, reason: str, *, actor: str) -> Revoked:
        """End a pass (by jti), a ticket (by ticket id; its pass too) or the passes of an identity, for good.

        Every verifier refuses it within two seconds, and its slot is free then. A repeat answers with the first reason.
        Raises Problem not-found: no such room, or no pass with this jti; and invalid for what is no ticket id.
        """
        room = await Rooms(self._pool).get(room_name)
        ticket_id, jti = None, None
        if kind == "ticket":
            if not TICKET_ID.fullmatch(subject):
                raise invalid_fields([("/subject", "must be a ticket id: 22 characters")])
            ticket_id, jti = subject, pass_id(subject, TURN)
        elif kind == "pass":
            ticket_id, jti = await self._whose(room.name, room.epoch, subject), subject
        async with self._pool.acquire() as connection, connection.transaction():
            new = await connection.fetchval(
                read_text("admission", "sql", "revoke.sql"),
                room.name,
                room.epoch,
                kind,
                subject,
                ticket_id,
                reason,
                jti,
                PASS_LIFE_SECONDS_MAX,
            )
            if new:
                detail = {"kind": kind, "subject": subject, "reason": reason}
                await note_action(connection, actor, "revoke", room.name, detail)
            (row,) = await connection.fetch(
                read_text("admission", "sql", "list_revocations.sql"), room.name, subject, 1
            )
        return Revoked(row["kind"], row["subject"], row["reason"], row["at"], repeated=not new)

    async def list(self, room_name: str) -> Sequence[Mapping[str, Any]]:
        """What was revoked in the room's present epoch, newest first, 200 at most. Raises Problem not-found."""
        room = await Rooms(self._pool).get(room_name)
        rows = await self._pool.fetch(
            read_text("admission", "sql", "list_revocations.sql"), room.name, None, LISTED_MAX
        )
        return [dict(row) for row in rows]

    async def _whose(self, room: str, epoch: int, jti: str) -> str:
        ticket_id: str | None = await self._pool.fetchval(
            read_text("admission", "sql", "find_pass.sql"), room, epoch, jti
        )
        if ticket_id is None:
            raise Problem("not-found", "No such pass was given out in this room's present sale; look a second later.")
        return ticket_id


class RevokedTickets:
    """Which tickets count no more, as of the last `refresh`; what it reads it also acts on."""

    def __init__(self, pool: Pool, book: Book, line: Line) -> None:
        self._pool = pool
        self._book = book
        self._line = line
        self._horizon = "0"
        self._reasons: dict[tuple[str, int], dict[tuple[str, str], str]] = {}
        self._slots: dict[tuple[str, int], dict[str, None]] = {}

    def refusal(self, ticket: Ticket) -> Problem | None:
        """Why `ticket` counts no more, for whoever shows it; None when it does. Touches no store."""
        reasons = self._reasons.get((ticket.room, ticket.epoch))
        if reasons is None:
            return None
        reason = reasons.get(("ticket", ticket.ticket_id))
        if reason is not None:
            return Problem(
                "ticket-refused",
                f"The organiser has taken this place back: {reason}",
                reason="revoked",
                why=reason,
            )
        if ("device", ticket.client_id) in reasons:
            return Problem(
                "ticket-refused",
                "This place has moved to another device, where it goes on. Here it no longer counts.",
                reason="moved",
            )
        return None

    async def refresh(self) -> None:
        """Read what is new, and free its slots. Raises what asyncpg raises; repeat at will."""
        rows = await self._pool.fetch(read_text("admission", "sql", "read_revoked_tickets.sql"), self._horizon)
        for row in rows:
            if row["room"] is not None:
                epoch = (row["room"], row["epoch"])
                self._reasons.setdefault(epoch, {})[row["kind"], row["subject"]] = row["reason"]
                if row["ticket_id"] is not None:
                    self._slots.setdefault(epoch, {})[row["ticket_id"]] = None
        self._horizon = rows[0]["horizon"]
        await self._free()

    async def _free(self) -> None:
        """Free the slots of what was revoked, in rooms that Redis can tell of; the others wait for the next time."""
        for view in self._book.views.values():
            epoch = (view.room.name, view.room.epoch)
            slots = self._slots.get(epoch)
            if not slots or view.handle is None:
                continue
            some = list(slots)[:FREED_MAX]
            try:
                freed = await self._line.revoke(view.handle, some)
            except LineAway as away:
                log.warning("slots wait for Redis", room=view.room.name, reason=away.detail)
                continue
            for ticket_id in some:
                del slots[ticket_id]
            if freed:
                log.info("slots of revoked tickets freed", room=view.room.name, slots=freed)
        present = {(view.room.name, view.room.epoch) for view in self._book.views.values()}
        for ended in [epoch for epoch in self._reasons if self._is_over(epoch, present)]:
            self._reasons.pop(ended)
            self._slots.pop(ended, None)

    def _is_over(self, epoch: tuple[str, int], present: set[tuple[str, int]]) -> bool:
        """Whether the book has come to a later epoch of that room."""
        return any(room == epoch[0] and number > epoch[1] for room, number in present)
