"""`fairgate sku`: import stock and seats from CSV, and see what is left."""

from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from counters.api import sku_document
from counters.imports import import_stock, read_seats, read_stock, seat_skus
from counters.store import Level, Stock
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, fail, open_books, run

app = typer.Typer(help="Import and look at stock.", no_args_is_help=True)


@app.command("import", epilog="Example: fairgate sku import stock.csv --seats seats.csv")
def import_files(
    stock_file: Annotated[Path, typer.Argument(help="SKUs: sku,title,total,shards,hold_seconds,…")],
    seats_file: Annotated[Path | None, typer.Option("--seats", help="Seats: sku,section,row,number,…")] = None,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Import SKUs from CSV. A bad row anywhere imports nothing; importing the same file again changes nothing."""
    stock, seats = _read(stock_file), "" if seats_file is None else _read(seats_file)

    async def work() -> list[tuple[str, str]]:
        skus = seat_skus(read_stock(stock), read_seats(seats) if seats_file else {})
        async with open_books(data) as books:
            return [(name, str(what)) for name, what in await import_stock(Stock(books.pool), skus, "operator:cli")]

    for name, what in run(work()):
        print(f"{name}: {what}")


@app.command("list", epilog="Example: fairgate sku list --json")
def list_skus(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Show what is left of every SKU."""
    _show(run(_levels(data, None)), as_json)


@app.command(epilog="Example: fairgate sku show general-admission")
def show(name: str, data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Show what is left of one SKU."""
    levels = run(_levels(data, [name]))
    if not levels:
        fail(f"There is no SKU {name}: `fairgate sku list` shows those there are.")
    _show(levels, as_json)


async def _levels(data: Path, names: list[str] | None) -> list[Level]:
    async with open_books(data) as books:
        return await Stock(books.pool).levels(names)


def _show(levels: list[Level], as_json: bool) -> None:
    if as_json:
        print(orjson.dumps([sku_document(level) for level in levels]).decode())
        return
    table = Table("sku", "kind", "state", "total", "available", "held", "sold", "room")
    for level in levels:
        figures = (str(figure) for figure in (level.total, level.available, level.held, level.sold))
        table.add_row(level.name, level.kind, level.state, *figures, level.room or "")
    Console().print(table)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}")
