"""`fairgate reconcile` and `fairgate audit`: make the books balance, and prove that they do."""

import sys
from dataclasses import asdict
from typing import Annotated

import httpx
import orjson
import typer
from rich.console import Console
from rich.table import Table

from counters.history import History
from counters.store import Disagreement, Level, Stock
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, fail, open_books, run
from reconciler.app import INQUIRY_SECONDS_MAX, payment_inquiry
from reconciler.jobs import Report, all_jobs


def reconcile(
    once: Annotated[bool, typer.Option("--once", help="One pass of every job, then end.")] = False,
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """Run one pass of repair, sweep, payments, rebalance and numbering, and print what each did."""
    if not once:
        fail("Say --once for a single pass; `fairgate serve reconciler` runs it for good.")

    async def work() -> list[Report]:
        async with open_books(data) as books, httpx.AsyncClient(timeout=INQUIRY_SECONDS_MAX, trust_env=False) as client:
            jobs = all_jobs(Stock(books.pool), History(books.pool), payment_inquiry(books.settings, client))
            return [await job.run_once() for job in jobs]

    reports = run(work())
    attention = [line for report in reports for line in report.attention]
    if as_json:
        print(orjson.dumps([asdict(report) for report in reports]).decode())
    else:
        table = Table("job", "what it did", title="One pass of the reconciler")
        for report in reports:
            table.add_row(report.job, ", ".join(f"{figure} {value}" for figure, value in report.done.items()))
        Console().print(table)
        for line in attention:
            print(f"Needs a person: {line}", file=sys.stderr)
    if attention:
        raise typer.Exit(1)


def audit(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Prove I2 and I9 for every SKU from their own rows. Exit code 0 only when the books balance."""

    async def work() -> tuple[list[Level], list[Disagreement]]:
        async with open_books(data) as books:
            stock = Stock(books.pool)
            levels = await stock.levels()
            return levels, [fault for level in levels for fault in await stock.audit(level)]

    levels, faults = run(work())
    if as_json:
        print(orjson.dumps({"balanced": not faults, "faults": [asdict(fault) for fault in faults]}).decode())
    else:
        _print_audit(levels, faults)
    if faults:
        raise typer.Exit(1)


def _print_audit(levels: list[Level], faults: list[Disagreement]) -> None:
    table = Table("sku", "total", "available", "held", "sold", "books", title="Audit")
    for level in levels:
        figures = (str(figure) for figure in (level.total, level.available, level.held, level.sold))
        wrong = sum(fault.sku == level.name for fault in faults)
        table.add_row(level.name, *figures, f"[red]{wrong} faults[/]" if wrong else "[green]balance[/]")
    Console().print(table)
    for fault in faults:
        print(
            f"{fault.invariant} {fault.sku}, {fault.place}: {fault.what}: recorded {fault.recorded}, should be {fault.expected}",
            file=sys.stderr,
        )
    if faults:
        print("`fairgate reconcile --once` mends what can be mended from holds, sales and ledger.", file=sys.stderr)
