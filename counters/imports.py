"""Stock and seats from CSV files (RFC 4180, UTF-8, with a header row): read and checked as a whole, then put in one step.

A file with a bad row imports nothing; each bad row is told with its line number and the reason.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from chassis.http import invalid
from chassis.problems import Problem
from counters.rules import SEATS_MAX, Oversell, Refused, Seat, SkuName, SkuSettings
from counters.store import Put, Stock

PROBLEMS_MAX = 20
# A setting of several parts has a column a part: {"oversell": {"policy": …}} is the column oversell_policy.
PARTED = {"oversell": tuple(f"oversell_{part}" for part in Oversell.__struct_fields__)}
STOCK_COLUMNS = (
    "sku",
    *(column for name in SkuSettings.__struct_fields__ if name != "seats" for column in PARTED.get(name, (name,))),
)
SEAT_COLUMNS = ("sku", *Seat.__struct_fields__)
T = TypeVar("T")


class ImportRefused(Problem):
    """Nothing was imported; `problems` name the first bad rows, one sentence each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("invalid", "Nothing was imported.\n  " + "\n  ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class _Row:
    """One data row: the line it starts on, and its filled cells by column."""

    line: int
    cells: dict[str, str]

    def read(self, kind: type[T]) -> T:
        """The cells but `sku` as `kind`. Raises _BadRow."""
        cells: dict[str, object] = {name: cell for name, cell in self.cells.items() if name != "sku"}
        for name, columns in PARTED.items():
            parts = {column.removeprefix(f"{name}_"): cells.pop(column) for column in columns if column in cells}
            if parts:
                cells[name] = parts
        try:
            return msgspec.convert(cells, kind, strict=False)
        except msgspec.ValidationError as error:
            raise _BadRow(self.line, invalid(error)) from None

    def sku(self) -> str:
        """The row's SKU name. Raises _BadRow."""
        try:
            return msgspec.convert({"sku": self.cells.get("sku")}, dict[str, SkuName])["sku"]
        except msgspec.ValidationError:
            raise _BadRow(self.line, "sku: use a-z, 0-9, dot, dash, underscore, at most 63") from None


class _BadRow(Exception):
    def __init__(self, line: int, reason: Problem | str) -> None:
        if isinstance(reason, Problem):
            errors: Any = reason.extensions["errors"]
            reason = "; ".join(f"{error['pointer'].strip('/') or 'row'}: {error['reason']}" for error in errors)
        super().__init__(f"line {line}: {reason}")


def read_stock(text: str) -> dict[str, SkuSettings]:
    """stock.csv: `sku`, `title` and any other setting of a SKU as a column; an empty cell is the setting's default.

    A seated SKU's seats come from seats.csv. Raises ImportRefused.
    """
    skus: dict[str, SkuSettings] = {}
    problems: list[str] = []
    for row in _rows(text, STOCK_COLUMNS, ("sku", "title")):
        try:
            name, settings = row.sku(), row.read(SkuSettings)
            if name in skus:
                raise _BadRow(row.line, f"sku: {name} stands on an earlier line already")
            skus[name] = settings if settings.kind == "seated" else _checked(row.line, settings)
        except _BadRow as bad:
            problems.append(str(bad))
    return _unless(problems, skus)


def read_seats(text: str) -> dict[str, tuple[Seat, ...]]:
    """seats.csv: `sku`, `seat`, `section`, `row`, `number`, and optional `tier`, `x`, `y`, `blocked`. Raises ImportRefused."""
    halls: dict[str, dict[str, Seat]] = {}
    problems: list[str] = []
    for row in _rows(text, SEAT_COLUMNS, ("sku", "seat", "section", "row", "number")):
        try:
            name, seat = row.sku(), row.read(Seat)
            if not all(at is None or math.isfinite(at) for at in (seat.x, seat.y)):
                raise _BadRow(row.line, "x, y: must be finite numbers")
            if seat.seat in halls.setdefault(name, {}):
                raise _BadRow(row.line, f"seat: {seat.seat} of {name} stands on an earlier line already")
            if len(halls[name]) == SEATS_MAX:
                raise _BadRow(row.line, f"sku: {name} has more than {SEATS_MAX} seats")
            halls[name][seat.seat] = seat
        except _BadRow as bad:
            problems.append(str(bad))
    return _unless(problems, {name: tuple(seats.values()) for name, seats in halls.items()})


def seat_skus(skus: Mapping[str, SkuSettings], halls: Mapping[str, tuple[Seat, ...]]) -> dict[str, SkuSettings]:
    """The SKUs of both files, each seated one with its seats; a hall that stock.csv lacks gets the default settings.

    Raises ImportRefused: seats of a fungible SKU, a seated SKU without seats, a total that is not their number.
    """
    joined: dict[str, SkuSettings] = {}
    problems: list[str] = []
    for name in sorted({*skus, *halls}):
        settings = skus.get(name) or SkuSettings(title=name, kind="seated")
        if settings.kind == "seated" and name not in halls:
            problems.append(f"{name}: is seated, but no seats are given")
            continue
        try:
            joined[name] = msgspec.structs.replace(settings, seats=halls.get(name)).checked()
        except Problem as problem:
            problems.append(f"{name}: {problem.detail}")
    return _unless(problems, joined)


async def import_stock(stock: Stock, skus: Mapping[str, SkuSettings], actor: str) -> list[tuple[str, Put]]:
    """Put all `skus` in one transaction, or none; what became of each. The same file again changes nothing.

    Raises ImportRefused when one of them cannot be put, such as a total below what is held and sold.
    """
    outcome = await stock.import_skus(skus, actor)
    if isinstance(outcome, Refused):
        facts = ", ".join(f"{name} {value}" for name, value in outcome.facts.items() if name != "sku")
        raise ImportRefused((f"{outcome.facts['sku']}: {outcome.code} ({facts})",))
    return outcome


def _rows(text: str, known: tuple[str, ...], needed: tuple[str, ...]) -> Iterator[_Row]:
    """The data rows. Raises ImportRefused for a header or a quotation that leaves no way to read on."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    line = 1
    try:
        columns = [cell.strip() for cell in next(reader, [])]
        wrong = [f"unknown column {name!r}" for name in columns if name not in known]
        wrong += [f"column {name!r} is missing" for name in needed if name not in columns]
        wrong += [f"column {name!r} stands twice" for name in known if columns.count(name) > 1]
        if wrong:
            raise ImportRefused(tuple(f"line 1: {reason}" for reason in wrong[:PROBLEMS_MAX]))
        line = reader.line_num + 1
        for cells in reader:
            if len(cells) > len(columns):
                raise ImportRefused((f"line {line}: has {len(cells)} cells under {len(columns)} columns",))
            filled = {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if cell.strip()}
            if filled:
                yield _Row(line, filled)
            line = reader.line_num + 1
    except csv.Error as error:
        raise ImportRefused((f"line {line}: is not CSV: {error}",)) from None


def _checked(line: int, settings: SkuSettings) -> SkuSettings:
    try:
        return settings.checked()
    except Problem as problem:
        raise _BadRow(line, problem) from None


def _unless(problems: list[str], answer: T) -> T:
    if problems:
        more = len(problems) - PROBLEMS_MAX
        shown = problems[:PROBLEMS_MAX] + ([f"and {more} more bad rows"] if more > 0 else [])
        raise ImportRefused(tuple(shown))
    return answer
