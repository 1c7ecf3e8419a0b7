"""The line's verbs on one room. Each is one Lua file of the same name and one call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from admission.redis_bond import RedisBond
from admission.stock_signal import StockSignal, read_signal
from admission.tickets import Kind, client_digest

ENTRANT_BYTES = 20  # of a client_id: what tells who joined
ClaimDelay = Literal["paused", "full", "rate"]
# The keys of the verbs on turns, in the order of lua/turns.lua.
TURN_KEYS = (
    *("line", "slots", "claims", "forget", "extended", "claimed"),
    *("unsaved", "doubtful", "calls", "ended", "lapsed", "turns"),
)
EPOCH_KEYS = (
    *TURN_KEYS,
    "entrants",
    "remembered",
    "unsaved_entries",
    "pacing",
)  # all that a room's epoch keeps in Redis
REPEATED_MS = 2_000  # an extension so soon behind the last is a double click, or a retry of a lost answer


@dataclass(frozen=True, slots=True)
class Handle:
    """A room in one generation of Redis: verbs on another are refused."""

    room: str
    epoch: int
    generation: int
    redis_identity: str | None


@dataclass(frozen=True, slots=True)
class Joined:
    """A place in line: `repeated` when this client had it already."""

    kind: Kind
    index: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class JoinRefused:
    """The room takes nobody now: before the pre-queue, after the sale, rejecting, or because entries_max have joined."""

    reason: Literal["not-yet", "closed", "rejecting", "full"]


@dataclass(frozen=True, slots=True)
class LimitReached:
    """No more of this kind may be issued before Postgres holds a higher limit."""

    kind: Kind
    limit: int


@dataclass(frozen=True, slots=True)
class Joining:
    """A client who wants a place, and the limits that Postgres is known to hold."""

    client_id: str
    entry_limit: int
    number_limit: int


JoinAnswer = Joined | JoinRefused | LimitReached


@dataclass(frozen=True, slots=True)
class Granted:
    """A slot and the times of its pass (Unix seconds): the first claim's, also when `repeated`."""

    issued_at: int
    expires_at: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class Early:
    """The place is not called yet; `called` is how far the line has come."""

    called: int


@dataclass(frozen=True, slots=True)
class Delayed:
    """The place is called but the room itself refuses for now; its turn starts anew from here."""

    reason: ClaimDelay
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Missed:
    """The turn is over, unused."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn was used and its pass is over: expired, left or revoked."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The sale is over: nobody is let in any more."""


@dataclass(frozen=True, slots=True)
class Extended:
    """The turn is longer than it was, or is called once more."""


@dataclass(frozen=True, slots=True)
class AllExtended:
    """The turn was extended as often as the room allows; it goes on until its end."""


@dataclass(frozen=True, slots=True)
class Used:
    """The turn was claimed: there is nothing to extend."""


ClaimAnswer = Granted | Early | Delayed | Missed | Ended | Closed


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a ticket stands: waiting with how far the line has come, called with what is left of the turn and how often
    it was extended, missed with how long it may still be called once more, admitted and ended with when the pass expires."""

    state: Literal["waiting", "called", "admitted", "missed", "ended"]
    called: int | None = None
    turn_left_seconds: float | None = None
    extensions: int = 0
    grace_left_seconds: float | None = None
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """A room's public figures at `read_ms` (Unix milliseconds by Redis's clock); the segment gives what is called."""

    read_ms: int
    base: float
    since_ms: int
    valid_until_ms: int
    call_rate: float
    called_max: int
    called: int
    active: int
    entries: int
    numbers: int
    admitted: int
    passed: int
    dormant: bool
    calling: str
    pace_per_minute: float
    stock: StockSignal | None

    def called_at(self, now_ms: float) -> int:
        """The last place called at `now_ms`: min(base + rate × (min(now, valid_until) − since), called_max)."""
        elapsed_ms = max(0.0, min(now_ms, self.valid_until_ms) - self.since_ms)
        return int(min(self.base + self.call_rate * elapsed_ms / 60_000, self.called_max))


class Line:
    """The hot half of the line. Every verb raises LineAway when Redis cannot decide."""

    def __init__(self, bond: RedisBond) -> None:
        self._bond = bond

    async def join(self, handle: Handle, joins: Sequence[Joining]) -> list[JoinAnswer]:
        """Places for clients, answered in their order; a repeat returns the first one."""
        entry_limit = max(joining.entry_limit for joining in joins)
        number_limit = max(joining.number_limit for joining in joins)
        values: list[str | bytes] = [str(handle.generation), str(entry_limit), str(number_limit)]
        for joining in joins:
            values += (client_digest(joining.client_id)[:ENTRANT_BYTES], joining.client_id)
        _, *rows = await self._bond.run(
            "join",
            handle.redis_identity,
            keys(handle.room, handle.epoch, "line", "entrants", "unsaved_entries"),
            values,
        )
        return [_join_answer(row) for row in rows]

    async def claim(self, handle: Handle, claims: Sequence[tuple[str, int]]) -> list[ClaimAnswer]:
        """Slots for called tickets (id, place), under rate and active cap, answered in their order; a repeat returns the
        first claim."""
        values = [text for ticket_id, place in claims for text in (ticket_id, str(place))]
        _, *rows = await self._of_turns("claim", handle, values)
        return [_claim_answer(row) for row in rows]

    async def extend(
        self, handle: Handle, ticket_id: str, place: int
    ) -> Extended | AllExtended | Used | Early | Missed | Closed:
        """One turn's length more for a called ticket, or its one more turn within the grace of a missed one."""
        answer = await self._of_turns("extend", handle, (ticket_id, str(place), str(REPEATED_MS)))
        match answer:
            case ["extended"]:
                return Extended()
            case ["limit"]:
                return AllExtended()
            case ["claimed"]:
                return Used()
            case ["early", int(called)]:
                return Early(called)
            case ["missed"]:
                return Missed()
            case ["closed"]:
                return Closed()
            case _:
                raise AssertionError(f"extend.lua answered {answer}")

    async def leave(self, handle: Handle, ticket_id: str) -> int | None:
        """Free the ticket's slot at once; when its longest pass expires, None when it had none. Revoke its pass first."""
        answer = await self._bond.run(
            "leave",
            handle.redis_identity,
            keys(handle.room, handle.epoch, "line", "slots", "claims"),
            (str(handle.generation), ticket_id),
        )
        match answer:
            case ["left", int(expires_at)]:
                return expires_at
            case ["none"]:
                return None
            case _:
                raise AssertionError(f"leave.lua answered {answer}")

    async def revoke(self, handle: Handle, ticket_ids: Sequence[str]) -> int:
        """Free the tickets' slots and let none of them claim again; how many slots that freed. Postgres says so first."""
        answer = await self._bond.run(
            "revoke",
            handle.redis_identity,
            keys(handle.room, handle.epoch, "line", "slots", "claims", "forget", "extended"),
            (str(handle.generation), *ticket_ids),
        )
        return int(answer[1])

    async def renew(self, handle: Handle, ticket_ids: Sequence[str]) -> list[int]:
        """Longer slots for tickets whose buyers were active; when each expires now (Unix seconds), 0 where it is over."""
        answer = await self._bond.run(
            "renew",
            handle.redis_identity,
            keys(handle.room, handle.epoch, "line", "slots", "claims", "forget", "unsaved"),
            (str(handle.generation), *ticket_ids),
        )
        return [int(expires_at) for expires_at in answer[1:]]

    async def look(self, handle: Handle, ticket_id: str, place: int) -> Standing:
        """Where the ticket stands; changes nothing."""
        answer = await self._of_turns("look", handle, (ticket_id, str(place)))
        match answer:
            case ["admitted" | "ended" as state, int(), int(expires_at)]:
                return Standing(state, expires_at=expires_at)
            case ["called", int(left_ms), int(extensions)]:
                return Standing("called", turn_left_seconds=left_ms / 1000, extensions=extensions)
            case ["waiting", int(called)]:
                return Standing("waiting", called=called)
            case ["missed", int(grace_ms)]:
                return Standing("missed", grace_left_seconds=grace_ms / 1000 if grace_ms > 0 else None)
            case _:
                raise AssertionError(f"look.lua answered {answer}")

    async def read(self, handle: Handle) -> Figures:
        """The room's public figures."""
        answer = await self._bond.run(
            "read",
            handle.redis_identity,
            (*keys(handle.room, handle.epoch, "line", "slots"), stock_key(handle.room)),
            (str(handle.generation),),
        )
        free, held, age_ms = answer[16:]
        return Figures(
            read_ms=answer[1],
            base=float(answer[2]),
            since_ms=answer[3],
            valid_until_ms=answer[4],
            call_rate=float(answer[5]),
            called_max=answer[6],
            called=answer[7],
            active=answer[8],
            entries=answer[9],
            numbers=answer[10],
            admitted=answer[11],
            passed=answer[12],
            dormant=answer[13] == 1,
            calling=answer[14],
            pace_per_minute=float(answer[15]),
            stock=read_signal(free, held, age_ms),
        )

    async def _of_turns(self, verb: str, handle: Handle, values: Sequence[str]) -> list[Any]:
        return await self._bond.run(
            verb,
            handle.redis_identity,
            keys(handle.room, handle.epoch, *TURN_KEYS),
            (str(handle.generation), *values),
        )


def keys(room: str, epoch: int, *names: str) -> tuple[str, ...]:
    """The Redis keys of a room's epoch; the shared hash tag keeps a room on one node of a cluster."""
    of_epoch = "" if epoch == 1 else f"e{epoch}:"
    return tuple(f"{{{room}}}:{of_epoch}{name}" for name in names)


def stock_key(room: str) -> str:
    """Where the stock tells what is left for a room, whatever its epoch."""
    return f"{{{room}}}:stock"


def _kind(letter: str) -> Kind:
    return "entry" if letter == "e" else "number"


def _join_answer(row: list[Any]) -> JoinAnswer:
    match row:
        case ["known" | "joined" as outcome, str(place)]:
            return Joined(_kind(place[0]), int(place[1:]), outcome == "known")
        case ["limit", str(kind), int(limit)]:
            return LimitReached(_kind(kind), limit)
        case ["not-yet" | "closed" | "rejecting" | "full" as reason]:
            return JoinRefused(reason)
        case _:
            raise AssertionError(f"join.lua answered {row}")


def _claim_answer(row: list[Any]) -> ClaimAnswer:
    match row:
        case ["granted" | "again" as outcome, int(issued_at), int(expires_at)]:
            return Granted(issued_at, expires_at, outcome == "again")
        case ["early", int(called)]:
            return Early(called)
        case ["wait", "paused" | "full" | "rate" as reason, int(wait_ms)]:
            return Delayed(reason, wait_ms / 1000)
        case ["missed"]:
            return Missed()
        case ["ended"]:
            return Ended()
        case ["closed"]:
            return Closed()
        case _:
            raise AssertionError(f"claim.lua answered {row}")
