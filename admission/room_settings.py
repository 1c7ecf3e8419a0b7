"""A room's settings: their names, bounds and relations (pure). Cloudflare's names for the same things work as aliases."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from chassis.http import invalid, invalid_fields
from chassis.moments import Moment, keep_in_utc

Method = Literal["draw", "fifo", "passthrough", "reject"]
Phase = Literal["draft", "prequeue", "standby", "open", "paused", "closed"]
AwayPolicy = Literal["closed", "open", "last-rate"]

PLAIN = r"^[^\x00-\x1f\x7f]+(?![\s\S])"  # text in one line, without control characters
ROOM_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
TURN_SECONDS_MAX = 3600


class Beacon(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A public beacon's round, later than the opening's close of entries, that the draw's key depends on too.

    `source` is where `/public/{round}` answers (drand's HTTP form); `fallback` says what happens when it does not come.
    """

    source: Annotated[str, msgspec.Meta(min_length=8, max_length=200, pattern=r"^https?://[^\s?#]+[^\s?#/](?![\s\S])")]
    round: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    fallback: Literal["wait", "without"] = "wait"


class RoomSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an operator may set.

    Without `opens_at` a scheduled room is open at once; a `phase` set by hand overrules the schedule. Without `active_max`
    only the rate bounds the room. `standby_above_per_minute` keeps the room dormant below that many joins.
    `stock_latency_ms_max` slows the line down, never below `rate_min_per_minute`, while the shop's stock answers slower.
    """

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=120, pattern=PLAIN)] = "Waiting room"
    method: Method = "draw"
    phase: Literal["scheduled", "draft", "prequeue", "open", "closed"] = "scheduled"
    prequeue_at: Moment | None = None
    opens_at: Moment | None = None
    closes_at: Moment | None = None
    rate_per_minute: Annotated[int, msgspec.Meta(ge=1, le=600_000)] = 60
    active_max: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    turn_seconds: Annotated[int, msgspec.Meta(ge=5, le=TURN_SECONDS_MAX)] = 120
    grace_seconds: Annotated[int, msgspec.Meta(ge=0, le=86_400)] = 60
    extensions_max: Annotated[int, msgspec.Meta(ge=0, le=20)] = 1
    pass_seconds: Annotated[int, msgspec.Meta(ge=5, le=86_400)] = 600
    renew: bool = True
    paused: bool = False
    message: Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=PLAIN)] | None = None
    queue_status_code: Literal[200, 202, 429, 503] = 200
    entries_max: Annotated[int, msgspec.Meta(ge=1, le=100_000_000)] | None = None
    standby_above_per_minute: Annotated[int, msgspec.Meta(ge=1, le=600_000)] | None = None
    away_policy: AwayPolicy = "closed"
    rate_min_per_minute: Annotated[int, msgspec.Meta(ge=1, le=600_000)] = 1
    stock_latency_ms_max: Annotated[int, msgspec.Meta(ge=10, le=60_000)] | None = 1_000
    beacon: Beacon | None = None
    skus: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=PLAIN)], ...],
        msgspec.Meta(max_length=100),
    ] = ()

    def __post_init__(self) -> None:
        keep_in_utc(self, "prequeue_at", "opens_at", "closes_at")


# Cloudflare's name -> ours, and how its value reads in our unit.
_ALIASES: Mapping[str, tuple[str, Callable[[object], object]]] = {
    "queueing_method": ("method", lambda value: "draw" if value == "random" else value),
    "new_users_per_minute": ("rate_per_minute", lambda value: value),
    "total_active_users": ("active_max", lambda value: value),
    "session_duration": ("pass_seconds", lambda value: value * 60 if type(value) is int else value),  # minutes
    "disable_session_renewal": ("renew", lambda value: not value if type(value) is bool else value),
    "queue_all": ("paused", lambda value: value),
    "queueing_status_code": ("queue_status_code", lambda value: value),
}


def read_settings(fields: Mapping[str, object]) -> RoomSettings:
    """The settings in a decoded JSON object. Raises Problem invalid, naming each wrong field."""
    try:
        settings = msgspec.convert(our_names(fields), RoomSettings)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    check_relations(settings)
    return settings


def our_names(fields: Mapping[str, object]) -> dict[str, object]:
    """`fields` with Cloudflare's names turned into ours. Raises Problem invalid where both are sent."""
    named: dict[str, object] = {}
    for name, value in fields.items():
        ours, convert = _ALIASES.get(name, (name, lambda value: value))
        if ours in named:
            raise invalid_fields([(f"/{name}", f"says the same as {ours}: send one of them")])
        named[ours] = convert(value)
    if named.get("rate_per_minute") == 0:
        raise invalid_fields([("/rate_per_minute", "must be at least 1: to let nobody in, set paused")])
    return named


def check_relations(settings: RoomSettings) -> None:
    """What single fields cannot say. Raises Problem invalid."""
    errors: list[tuple[str, str]] = []
    if len(set(settings.skus)) < len(settings.skus):
        errors.append(("/skus", "names a SKU twice"))
    if settings.rate_min_per_minute > settings.rate_per_minute:
        errors.append(("/rate_min_per_minute", "must not be above rate_per_minute"))
    if settings.beacon is not None and settings.method == "fifo":
        errors.append(("/beacon", "only a draw has a beacon"))
    if settings.beacon is not None and not _may_be_asked(settings.beacon.source):
        errors.append(("/beacon/source", "must be https, or http on this machine itself"))
    if settings.standby_above_per_minute is not None and settings.method == "draw":
        errors.append(("/standby_above_per_minute", "a draw cannot stand by: use the method fifo"))
    if settings.prequeue_at is not None and settings.opens_at is None:
        errors.append(("/prequeue_at", "needs opens_at: a pre-queue ends when the room opens"))
    if settings.prequeue_at is not None and settings.opens_at is not None and settings.prequeue_at > settings.opens_at:
        errors.append(("/prequeue_at", "must not be later than opens_at"))
    if settings.closes_at is not None and settings.opens_at is not None:
        open_seconds = (settings.closes_at - settings.opens_at).total_seconds()
        if open_seconds <= 0:
            errors.append(("/closes_at", "must be later than opens_at"))
        elif settings.turn_seconds > open_seconds:
            errors.append(("/turn_seconds", "a turn must not be longer than the sale"))
    if errors:
        raise invalid_fields(errors)


def _may_be_asked(source: str) -> bool:
    try:
        address = urlsplit(source)
        return address.scheme == "https" or address.hostname in ("127.0.0.1", "::1", "localhost")
    except ValueError:
        return False


def phase_of(settings: RoomSettings, now_ms: float, *, dormant: bool = False) -> Phase:
    """The room's phase at `now_ms` (Unix milliseconds); `dormant` when a room that may stand by does."""
    phase: Phase
    if settings.phase != "scheduled":
        phase = settings.phase
    elif settings.prequeue_at is not None and now_ms < settings.prequeue_at.timestamp() * 1000:
        phase = "draft"
    elif settings.closes_at is not None and now_ms >= settings.closes_at.timestamp() * 1000:
        phase = "closed"
    elif settings.opens_at is not None and now_ms < settings.opens_at.timestamp() * 1000:
        phase = "prequeue"
    else:
        phase = "open"
    if phase == "open" and settings.paused:
        return "paused"
    return "standby" if phase == "open" and dormant else phase
