"""A room's settings: their names, bounds and relations (pure). Cloudflare's names for the same things work as aliases."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import msgspec

from chassis.http import invalid, invalid_fields
from chassis.moments import Moment, keep_in_utc

Method = Literal["draw", "fifo"]

PLAIN = r"^[^\x00-\x1f\x7f]+$"  # text in one line, without control characters
ROOM_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
TURN_SECONDS_MAX = 3600


class RoomSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an operator may set. Without `opens_at` the room is open at once; without `active_max` only the rate bounds it."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=120, pattern=PLAIN)] = "Waiting room"
    method: Method = "draw"
    prequeue_at: Moment | None = None
    opens_at: Moment | None = None
    closes_at: Moment | None = None
    rate_per_minute: Annotated[int, msgspec.Meta(ge=1, le=600_000)] = 60
    active_max: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] | None = None
    turn_seconds: Annotated[int, msgspec.Meta(ge=5, le=TURN_SECONDS_MAX)] = 120
    pass_seconds: Annotated[int, msgspec.Meta(ge=5, le=86_400)] = 600
    paused: bool = False
    message: Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=PLAIN)] | None = None
    queue_status_code: Literal[200, 202, 429, 503] = 200
    entries_max: Annotated[int, msgspec.Meta(ge=1, le=100_000_000)] | None = None
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
    "queue_all": ("paused", lambda value: value),
    "queueing_status_code": ("queue_status_code", lambda value: value),
}


def read_settings(fields: Mapping[str, object]) -> RoomSettings:
    """The settings in a decoded JSON object. Raises Problem invalid, naming each wrong field."""
    named: dict[str, object] = {}
    for name, value in fields.items():
        ours, convert = _ALIASES.get(name, (name, lambda value: value))
        if ours in named:
            raise invalid_fields([(f"/{name}", f"says the same as {ours}: send one of them")])
        named[ours] = convert(value)
    try:
        settings = msgspec.convert(named, RoomSettings)
    except msgspec.ValidationError as error:
        raise invalid(error) from None
    check_relations(settings)
    return settings


def check_relations(settings: RoomSettings) -> None:
    """What single fields cannot say. Raises Problem invalid."""
    errors: list[tuple[str, str]] = []
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
