"""`fairgate room`: set up and look at waiting rooms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import orjson
import typer
from rich.console import Console
from rich.table import Column, Table

from admission.admin import HANDS
from admission.revocations import Kind, Revocations, Revoked
from admission.room_settings import read_settings
from admission.rooms import Room, Rooms
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, fail, open_books, run
from fairgate.cli.verify_draw import verify_draw

ACTOR = "command line"
app = typer.Typer(help="Set up and look at waiting rooms.", no_args_is_help=True)
app.command(
    epilog="Example: fairgate room verify-draw https://shop.example/.fairgate/rooms/onsale/draw --ticket ticket.txt"
)(verify_draw)


@app.command(epilog="Example: fairgate room put onsale room.json")
def put(
    name: Annotated[str, typer.Argument(help="The room's name, as it stands in its address.")],
    settings_file: Annotated[Path, typer.Argument(help="JSON with the room's settings; what is left out is default.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Create a room or change its settings; every worker acts on them within two seconds."""
    fields: object = None
    try:
        fields = orjson.loads(settings_file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        fail(f"{settings_file} cannot be read: {error}")
    if not isinstance(fields, dict):
        fail(f"{settings_file} must hold one JSON object.")

    async def work() -> Room:
        async with open_books(data) as books:
            return await Rooms(books.pool).put(name, read_settings(fields))

    print(orjson.dumps(_document(run(work())), option=orjson.OPT_INDENT_2).decode())


@app.command(epilog="Example: fairgate room show onsale")
def show(name: str, data: DataOption = DEFAULT_DATA) -> None:
    """Print a room's settings with their defaults."""

    async def work() -> Room:
        async with open_books(data) as books:
            return await Rooms(books.pool).get(name)

    print(orjson.dumps(_document(run(work())), option=orjson.OPT_INDENT_2).decode())


@app.command("set", epilog="Example: fairgate room set onsale rate_per_minute=120 message='More seats at noon'")
def set_some(
    name: str,
    changes: Annotated[list[str], typer.Argument(help="setting=value; the value as JSON, or as plain text.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Change some settings of a room and leave the others; every worker acts on them within two seconds."""
    fields: dict[str, object] = {}
    for change in changes:
        field, equals, value = change.partition("=")
        if not equals:
            fail(f"{change!r} is no change: write setting=value.")
        try:
            fields[field] = orjson.loads(value)
        except orjson.JSONDecodeError:
            fields[field] = value
    _change(data, name, fields, "change")


@app.command("by-hand", epilog="Example: fairgate room by-hand onsale pause")
def by_hand(
    name: str,
    hand: Annotated[str, typer.Argument(help=f"One of {', '.join(HANDS)}.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Open, close, pause or resume a room, or give it back to its schedule."""
    if hand not in HANDS:
        fail(f"{hand!r} is none of {', '.join(HANDS)}.")
    _change(data, name, HANDS[hand], hand)


@app.command(epilog="Example: fairgate room reset onsale --epoch 1")
def reset(
    name: str,
    epoch: Annotated[int, typer.Option(min=1, help="The epoch that ends: see `fairgate room show`.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """End the room's epoch: its tickets, places and passes end, its proofs stay. The room is a draft until it is put again."""

    async def work() -> Room:
        async with open_books(data) as books:
            return await Rooms(books.pool).reset(name, epoch, actor=ACTOR)

    print(orjson.dumps(_document(run(work())), option=orjson.OPT_INDENT_2).decode())


@app.command(epilog="Example: fairgate room revoke onsale --ticket kX0… --reason 'Bought by a script: write to us'")
def revoke(
    name: str,
    reason: Annotated[str, typer.Option(help="Why: shown to whom it concerns.")],
    ticket: Annotated[str | None, typer.Option(help="A ticket id: its place and its pass end.")] = None,
    jti: Annotated[str | None, typer.Option("--pass", help="A pass's jti: it ends and its slot is free.")] = None,
    identity: Annotated[str | None, typer.Option(help="An identity as passes carry it: its passes end.")] = None,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """End a pass, a ticket or an identity's passes, for good; every worker acts on it within two seconds."""
    options: tuple[tuple[Kind, str | None], ...] = (("ticket", ticket), ("pass", jti), ("identity", identity))
    named = [(kind, subject) for kind, subject in options if subject is not None]
    if len(named) != 1:
        fail("Name one of --ticket, --pass and --identity.")
    if not reason.strip():
        fail("Give a reason: whom it concerns is shown it.")

    async def work() -> Revoked:
        async with open_books(data) as books:
            return await Revocations(books.pool).revoke(name, *named[0], reason, actor=ACTOR)

    print(orjson.dumps(run(work()), option=orjson.OPT_INDENT_2).decode())


@app.command(epilog="Example: fairgate room actions onsale")
def actions(
    name: Annotated[str | None, typer.Argument(help="A room; all of them when left out.")] = None,
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """What operators did, newest first: the last 200."""

    async def work() -> Sequence[dict[str, object]]:
        async with open_books(data) as books:
            return await Rooms(books.pool).actions(name)

    found = run(work())
    if as_json:
        print(orjson.dumps(found).decode())
        return
    table = Table("at", "room", "who", "did", Column("what", overflow="fold"))
    for one in found:
        detail = orjson.dumps(one["detail"]).decode()
        table.add_row(f"{one['at']:%F %T}", str(one["room"] or ""), str(one["actor"]), str(one["action"]), detail)
    Console().print(table)


@app.command("list", epilog="Example: fairgate room list --json")
def list_rooms(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """List all rooms."""

    async def work() -> list[Room]:
        async with open_books(data) as books:
            return await Rooms(books.pool).list()

    rooms = run(work())
    if as_json:
        print(orjson.dumps([_document(room) for room in rooms]).decode())
        return
    table = Table("room", "title", "method", "opens at", "rate / min", "active max", "paused")
    for room in rooms:
        rules = room.settings
        opens_at = f"{rules.opens_at:%F %T %Z}" if rules.opens_at else "open"
        table.add_row(
            room.name,
            rules.title,
            rules.method,
            opens_at,
            str(rules.rate_per_minute),
            str(rules.active_max or ""),
            str(rules.paused),
        )
    Console().print(table)


def _change(data: Path, name: str, fields: Mapping[str, object], action: str) -> None:
    async def work() -> Room:
        async with open_books(data) as books:
            return await Rooms(books.pool).change(name, fields, actor=ACTOR, action=action)

    print(orjson.dumps(_document(run(work())), option=orjson.OPT_INDENT_2).decode())


def _document(room: Room) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(room.settings)
    return {"room": room.name, "epoch": room.epoch, **fields}
