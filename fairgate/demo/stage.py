"""Sets the stage for a demo: an empty database, the example stock, one room, and keys for the shop.

A demo clears only what an earlier demo left; it refuses a database that holds anybody's real sale.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import asyncpg
import msgspec
from redis.asyncio import Redis

from admission.room_settings import RoomSettings
from admission.rooms import Rooms
from chassis.database import Pool, read_text
from chassis.keys import ApiKeys
from counters.imports import import_stock, read_seats, read_stock, seat_skus
from counters.rules import SkuSettings
from counters.store import Stock
from fairgate.migrations.migrate import migrate
from fairgate.stack.errors import StackError

ROOM = "onsale"


@dataclass(frozen=True, slots=True)
class Keys:
    """What the shop is given."""

    stock_key: str
    inquiry_key: str


def example_stock() -> dict[str, SkuSettings]:
    """The SKUs of examples/onsale: 500 tickets over 16 sub-counters, and a hall."""
    return seat_skus(read_stock(_example("stock.csv")), read_seats(_example("seats.csv")))


async def clear(database_url: str, redis_url: str, data: Path) -> None:
    """Empty the database of what an earlier demo left, and bring it to our schema. Raises StackError for a real sale's."""
    connection = await asyncpg.connect(database_url)
    try:
        whose = await connection.fetchval(_sql("whose_stage.sql"))
        if whose == "ours":
            found = await connection.fetchrow(_sql("count_sales.sql"))
            if found is not None and (found["skus"] or found["rooms"]):
                raise StackError(
                    f"{data} holds a sale of your own ({found['skus']} SKUs, {found['rooms']} rooms), which the demo would "
                    "overwrite: run it on another folder with --data."
                )
        if whose != "empty":
            await connection.execute(_sql("clear_stage.sql"))
        await migrate(database_url)
        await connection.execute(_sql("mark_stage.sql"))
    finally:
        await connection.close()
    async with Redis.from_url(redis_url) as redis:
        async for key in redis.scan_iter(match=f"{{{ROOM}}}:*"):
            await redis.delete(key)


async def furnish(pool: Pool, skus: Mapping[str, SkuSettings]) -> Keys:
    """Import the stock and make the shop's keys."""
    await import_stock(Stock(pool), skus, "operator:demo")
    return Keys(await ApiKeys(pool).create("box-office", "shop"), secrets.token_urlsafe(32))


async def announce(pool: Pool, opens_in_seconds: float, rate_per_minute: int, active_max: int) -> None:
    """Create the room that opens in a few seconds."""
    await Rooms(pool).put(
        ROOM,
        RoomSettings(
            title="The big onsale",
            opens_at=datetime.now(UTC) + timedelta(seconds=opens_in_seconds),
            rate_per_minute=rate_per_minute,
            active_max=active_max,
            turn_seconds=30,
            pass_seconds=120,
            skus=tuple(example_stock()),
        ),
    )


async def give_people_time(pool: Pool) -> None:
    """Let holds last minutes instead of seconds: after the crowd, people shop here."""
    stock = Stock(pool)
    for name, settings in example_stock().items():
        patient = msgspec.structs.replace(settings, hold_seconds=300, hold_seconds_max=900, payment_seconds_max=300)
        await stock.put_sku(name, patient, "operator:demo")


def _example(name: str) -> str:
    """An example file, from the checkout or (installed) from inside the package."""
    checkout = Path(__file__).parents[2] / "examples" / "onsale" / name
    if checkout.exists():
        return checkout.read_text(encoding="utf-8")
    return files("fairgate").joinpath("examples", "onsale", name).read_text(encoding="utf-8")


def _sql(name: str) -> str:
    return read_text("fairgate", "sql", name)
