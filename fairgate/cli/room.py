"""`fairgate room`: set up and look at waiting rooms."""

from pathlib import Path
from typing import Annotated

import msgspec
import orjson
import typer
from rich.console import Console
from rich.table import Table

from admission.room_settings import read_settings
from admission.rooms import Room, Rooms
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, fail, open_books, run

app = typer.Typer(help="Set up and look at waiting rooms.", no_args_is_help=True)


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


def _document(room: Room) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(room.settings)
    return {"room": room.name, "epoch": room.epoch, **fields}
