"""`fairgate sku`: import stock and seats from CSV, and see what is left, what was and what happened."""

from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from chassis.http import decode_json
from counters.admin_api import AsOfQuery, as_of_document
from counters.api import sku_document
from counters.history import Entry, History
from counters.history_api import PAGE_ROWS_MAX, history_document
from counters.imports import import_stock, read_seats, read_stock, seat_skus
from counters.store import Level, Stock
from fairgate.cli import seller
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, fail, open_books, run

SEATS_SHOWN_MAX = 6
app = typer.Typer(help="Import stock, look at it, and change it in sale.", no_args_is_help=True)
app.add_typer(seller.app)


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


@app.command(epilog="Example: fairgate sku show general-admission --as-of 2026-11-30T10:00:00Z")
def show(
    name: str,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="A moment with its zone: what the ledger says of it.")
    ] = None,
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """Show what is left of one SKU, or what was at a moment by its ledger."""
    if as_of is not None:
        _show_as_of(run(_as_of(data, name, as_of)), as_json)
        return
    levels = run(_levels(data, [name]))
    if not levels:
        fail(f"There is no SKU {name}: `fairgate sku list` shows those there are.")
    _show(levels, as_json)


@app.command(epilog="Example: fairgate sku history general-admission --limit 20")
def history(
    name: str,
    limit: Annotated[int, typer.Option(min=1, max=PAGE_ROWS_MAX, help="At most so many rows.")] = 100,
    after: Annotated[int, typer.Option(min=0, help="Only rows after this number.")] = 0,
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """Show what happened to a SKU's stock, row by row of the ledger, in order."""

    async def work() -> list[Entry]:
        async with open_books(data) as books:
            ledger, found = History(books.pool), await seller.find(Stock(books.pool), name)
            while (await ledger.number(found.id, PAGE_ROWS_MAX)).more:
                pass  # no reconciler may be running: what it has not numbered yet would be missing
            return await ledger.entries(found.id, after, limit)

    entries = run(work())
    if as_json:
        print(orjson.dumps(history_document(name, after, entries)).decode())
        return
    table = Table("number", "at", "what", "where", "total", "allowance", "held", "sold", "by", "why")
    for entry in entries:
        where = str(entry.shard) if entry.seats is None else _seats(entry.seats)
        deltas = (entry.total_delta, entry.allowance_delta, entry.held_delta, entry.sold_delta)
        why = ": ".join(text for text in (entry.source, entry.reason) if text)
        figures = (f"{delta:+}" if delta else "" for delta in deltas)
        table.add_row(str(entry.number), f"{entry.at:%F %T}", entry.verb, where, *figures, entry.actor, why)
    Console().print(table)


def _seats(seats: list[str]) -> str:
    """A few seats by name, a hall by its number: `--json` has all of them."""
    return (
        ", ".join(seats)
        if len(seats) <= SEATS_SHOWN_MAX
        else f"{', '.join(seats[:SEATS_SHOWN_MAX])} … ({len(seats)} seats)"
    )


async def _as_of(data: Path, name: str, as_of: str) -> dict[str, object]:
    at = decode_json(orjson.dumps({"as_of": as_of}), AsOfQuery).as_of
    assert at is not None
    async with open_books(data) as books:
        sku = await seller.find(Stock(books.pool), name)
        return as_of_document(sku, at, await History(books.pool).as_of(sku, at))


async def _levels(data: Path, names: list[str] | None) -> list[Level]:
    async with open_books(data) as books:
        return await Stock(books.pool).levels(names)


def _show_as_of(figures: dict[str, object], as_json: bool) -> None:
    if as_json:
        print(orjson.dumps(figures).decode())
        return
    table = Table(*figures)
    table.add_row(*(str(figure) for figure in figures.values()))
    Console().print(table)


def _show(levels: list[Level], as_json: bool) -> None:
    if as_json:
        print(orjson.dumps([sku_document(level) for level in levels]).decode())
        return
    table = Table("sku", "kind", "state", "total", "available", "held", "sold", "backordered", "room")
    for level in levels:
        counts = (level.total, level.available, level.held, level.sold, level.backordered)
        figures = (str(count) for count in counts)
        table.add_row(level.name, level.kind, level.state, *figures, level.room or "")
    Console().print(table)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}")
