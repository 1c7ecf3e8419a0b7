"""Begins a new generation of a room's line when Redis was lost, rewound, replaced, or never held the room.

Postgres decides where issuing and calling resume; tickets presented keep their places and no number is issued twice.
Only the leader does this; until it is done every verb on the room is refused and buyers are told to try again.
"""

import time
from collections.abc import Sequence

import asyncpg
import structlog

from admission.book import ISSUE_CHUNK, View
from admission.calling import CARRY_PLACES_MAX, Call, doubtful_places
from admission.claim_keeper import Claim
from admission.line import keys
from admission.passes import pass_id
from admission.redis_bond import LineAway, RedisBond
from admission.room_settings import RoomSettings
from admission.rooms import Room
from chassis.database import Pool, read_text

CLAIMS_MAX = 1_000  # in one script run: it keeps every other room on its node waiting
log = structlog.get_logger()


async def begin_generation(pool: Pool, bond: RedisBond, room: Room, term: int) -> None:
    """Bring the room back on the Redis that answers now. Raises LineAway when it is gone again; repeat at will."""
    identity = bond.identity_of(room.name)
    _, held_generation, entries, numbers, *unsaved = await bond.run(
        "salvage", identity, keys(room.name, room.epoch, "line", "unsaved"), ()
    )
    await save_claims(pool, room, [read_claim(text) for text in unsaved])
    row = await pool.fetchrow(
        read_text("admission", "sql", "begin_generation.sql"),
        room.name,
        room.epoch,
        term,
        identity,
        held_generation,
        entries,
        numbers,
        ISSUE_CHUNK,
    )
    if row is None:
        raise LineAway("another leader is at work")
    calls = [
        Call(call["called"], call["clock_ms"])
        for call in await pool.fetch(read_text("admission", "sql", "recent_calls.sql"), room.name, room.epoch)
    ]
    claims = await pool.fetch(read_text("admission", "sql", "recent_claims.sql"), room.name, room.epoch)
    generation = str(row["generation"])
    await bond.run(
        "restore",
        identity,
        keys(room.name, room.epoch, "line", "calls", "doubtful", "slots", "claims", "forget", "claimed"),
        (
            generation,
            str(term),
            *_memory(room.settings, row, calls, claims),
            *_hash(room.settings, row, forgot=held_generation == 0),
        ),
    )
    for first in range(0, len(claims) or 1, CLAIMS_MAX):
        last = first + CLAIMS_MAX >= len(claims)
        answer = await bond.run(
            "refill",
            identity,
            keys(room.name, room.epoch, "line", "slots", "claims", "forget", "claimed"),
            (generation, "1" if last else "0", *_values(claims[first : first + CLAIMS_MAX])),
        )
        if answer[0] == "term":
            raise LineAway("another leader is at work")
    log.info("line restored", room=room.name, generation=row["generation"], called=row["called"], claims=len(claims))


async def save_claims(pool: Pool, room: Room, claims: Sequence[Claim]) -> None:
    """Keep claims in Postgres; each is kept once."""
    if claims:
        await pool.execute(
            read_text("admission", "sql", "append_claims.sql"),
            room.name,
            room.epoch,
            [claim.ticket_id for claim in claims],
            [claim.place for claim in claims],
            [pass_id(claim.ticket_id, 1) for claim in claims],
            [claim.issued_at for claim in claims],
            [claim.expires_at for claim in claims],
        )


async def enter_late_claims(pool: Pool, bond: RedisBond, view: View) -> int:
    """Tell Redis of claims granted while it was away, or come late, before anybody else is called; how many. Raises LineAway."""
    assert view.handle is not None
    room, entered = view.room, 0
    while late := await pool.fetch(read_text("admission", "sql", "late_claims.sql"), room.name, room.epoch, CLAIMS_MAX):
        await bond.run(
            "enter",
            view.handle.redis_identity,
            keys(room.name, room.epoch, "line", "slots", "claims", "forget", "claimed", "doubtful"),
            (str(view.handle.generation), *_values(late)),
        )
        ticket_ids = [claim["ticket_id"] for claim in late]
        await pool.execute(read_text("admission", "sql", "claims_entered.sql"), room.name, room.epoch, ticket_ids)
        entered += len(late)
    return entered


def read_claim(text: str) -> Claim:
    """A claim from claim.lua's 'ticket place issued expires'."""
    ticket_id, place, issued_at, expires_at = text.split(" ")
    return Claim(ticket_id, int(place), int(issued_at), int(expires_at))


def settings_fields(settings: RoomSettings) -> dict[str, str]:
    """The settings that scripts judge by, as fields of {room}:line; '' stands for none."""
    moments = {
        name: "" if moment is None else str(round(moment.timestamp() * 1000))
        for name, moment in (
            ("prequeue_at_ms", settings.prequeue_at),
            ("opens_at_ms", settings.opens_at),
            ("closes_at_ms", settings.closes_at),
        )
    }
    return moments | {
        "rate_per_minute": str(settings.rate_per_minute),
        "active_max": "" if settings.active_max is None else str(settings.active_max),
        "turn_ms": str(settings.turn_seconds * 1000),
        "pass_seconds": str(settings.pass_seconds),
        "grace_ms": str(settings.grace_seconds * 1000),
        "extensions_max": str(settings.extensions_max),
        "renew": "1" if settings.renew else "0",
        "method": settings.method,
        "phase": settings.phase,
        "paused": "1" if settings.paused else "0",
        "standby_above_per_minute": str(settings.standby_above_per_minute or ""),
        "entries_max": "" if settings.entries_max is None else str(settings.entries_max),
    }


def _values(claims: Sequence[asyncpg.Record]) -> list[str]:
    """What refill.lua and enter.lua take of claims."""
    return [str(claim[name]) for claim in claims for name in ("ticket_id", "place", "issued_at", "expires_at", "state")]


def _memory(
    settings: RoomSettings, row: asyncpg.Record, calls: Sequence[Call], claims: Sequence[asyncpg.Record]
) -> list[str]:
    """What restore.lua takes of calls and doubtful places: their counts, then their values."""
    doubtful: dict[int, int] = {}
    if settings.active_max is not None:
        claimed = {claim["place"] for claim in claims}
        turn_ms = settings.turn_seconds * 1000
        called = doubtful_places(calls, claimed, row["over"], row["called"])
        doubtful = {place: clock_ms + turn_ms for place, clock_ms in called.items()}
    values = [f"{len(calls)} {len(doubtful)}"]
    for call in calls:
        values += [str(call.clock_ms), str(call.called)]
    for place, ends_ms in doubtful.items():
        values += [str(place), str(ends_ms)]
    return values


def _hash(settings: RoomSettings, row: asyncpg.Record, *, forgot: bool) -> list[str]:
    """The fields of a fresh {room}:line. Only a room that begins may admit somebody at once: it has been idle.

    A Redis that `forgot` the room has forgotten whose turns were lengthened too: all that were over are called once more.
    """
    begins = row["entries"] == 0 and row["numbers"] == 0 and row["called"] == 0
    fields = settings_fields(settings) | {
        "entries": str(row["entries"]),
        "numbers": str(row["numbers"]),
        "entry_limit": str(row["entry_limit"]),
        "number_limit": str(row["number_limit"]),
        "entries_closed": "0" if row["ordered_by"] == "draw" and not row["entries_closed"] else "1",
        "passed_over": "0",
        "base": str(row["called"] + (CARRY_PLACES_MAX if begins else 0)),
        "called_max": str(row["called"]),
        "since_ms": str(round(time.time() * 1000)),
        "valid_until_ms": "0",
        "call_rate": "0",
        "clock_ms": str(row["clock_ms"]),
        "over": str(row["over"]),
        "forgot_over": str(row["over"]) if forgot else "0",
        "forgot_at_ms": str(round(time.time() * 1000)),
        "bucket": str(max(1.0, settings.rate_per_minute / 60)) if begins else "0",
        "admitted": "0",
        "dormant": "1"
        if begins and settings.standby_above_per_minute is not None
        else "0",  # who waits keeps the order
    }
    return [text for pair in fields.items() for text in pair]
