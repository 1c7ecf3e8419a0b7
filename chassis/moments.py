"""Moments that callers send: kept in UTC, within years that Python, Postgres and every zone between them can hold."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

YEAR_MIN, YEAR_MAX = 1970, 2999
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


def keep_in_utc(body: msgspec.Struct, *fields: str) -> None:
    """Turn these fields of a freshly read body to UTC; for its `__post_init__`.

    Raises ValueError, which msgspec tells as its own, for a moment that is not within the years in UTC.
    """
    for field in fields:
        moment: datetime | None = getattr(body, field)
        if moment is None:
            continue
        try:
            in_utc = moment.astimezone(UTC)
        except OverflowError:
            in_utc = None
        if in_utc is None or not YEAR_MIN <= in_utc.year <= YEAR_MAX:
            raise ValueError(f"{field} must lie between {YEAR_MIN} and {YEAR_MAX}")
        msgspec.structs.force_setattr(body, field, in_utc)
