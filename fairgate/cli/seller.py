"""`fairgate sku adjust | incidents | halt | resume`: what a seller changes about a SKU in sale, and what that left open."""

import secrets
from typing import Annotated, Literal

import orjson
import typer
from rich.console import Console
from rich.table import Table

from chassis.http import decode_json
from counters.adjust_api import adjust_key
from counters.adjustments import AdjustBody, Adjustments, Incident, ReasonBody
from counters.answers import refusal
from counters.api import no_sku
from counters.history_api import PAGE_ROWS_MAX, row_document
from counters.rules import TOTAL_MAX, Done, Refused
from counters.store import Sku, Stock
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, fail, open_books, run

app = typer.Typer()
ACTOR = "operator:cli"
ReasonOption = Annotated[str, typer.Option(help="Why; it goes into the ledger.")]


@app.command(
    epilog="Example: fairgate sku adjust general-admission --reduce 12 --source warehouse --reason 'water damage'"
)
def adjust(
    name: str,
    source: Annotated[str, typer.Option(help="Whose figure it is: a till, a warehouse, a feed.")],
    reason: ReasonOption,
    increase: Annotated[int | None, typer.Option(max=TOTAL_MAX, help="So many units came.")] = None,
    reduce: Annotated[int | None, typer.Option(max=TOTAL_MAX, help="So many units went.")] = None,
    recount: Annotated[
        int | None, typer.Option(max=TOTAL_MAX, help="So many there are in all, held and sold ones included.")
    ] = None,
    accept_shortage: Annotated[
        bool, typer.Option("--accept-shortage", help="Take what is free, and open an incident about the rest.")
    ] = False,
    key: Annotated[str | None, typer.Option(help="The same for a retry, so that it counts once.")] = None,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Change a SKU's total, and print what became of it."""
    asked = {
        kind: units
        for kind, units in (("increase", increase), ("reduce", reduce), ("recount", recount))
        if units is not None
    }
    if len(asked) != 1:
        fail("Say one of --increase, --reduce and --recount.")
    ((kind, quantity),) = asked.items()
    body = {
        "kind": kind,
        "quantity": quantity,
        "source": source,
        "reason": reason,
        "if_short": "accept" if accept_shortage else "refuse",
    }

    async def work() -> Done | Refused:
        change = decode_json(orjson.dumps(body), AdjustBody)
        async with open_books(data) as books:
            stock = Stock(books.pool)
            sku = await find(stock, name)
            return await stock.adjust(
                sku.id, change, ACTOR, adjust_key(ACTOR, sku.id, key or secrets.token_hex(16), change)
            )

    outcome = run(work())
    if isinstance(outcome, Refused) and outcome.code == "below-commitments":
        facts = outcome.facts
        fail(
            f"{facts['asked']} units were to go, and {facts['free']} are free: of {facts['total']}, {facts['held']} are held and "
            f"{facts['sold']} sold. Nothing was changed. Wait for holds to end, cancel sales, or take what is free and open an "
            "incident about the rest: --accept-shortage."
        )
    _say(outcome)


@app.command(epilog="Example: fairgate sku incidents --json")
def incidents(
    every: Annotated[bool, typer.Option("--all", help="Closed ones too.")] = False,
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """List where units are promised that do not exist, so that a person has to act."""

    async def work() -> list[Incident]:
        async with open_books(data) as books:
            return await Adjustments(books.pool).incidents(None, None if every else "open", PAGE_ROWS_MAX)

    found = run(work())
    if as_json:
        print(orjson.dumps([row_document(incident) for incident in found]).decode())
        return
    table = Table("sku", "what", "state", "units", "source", "reason", "opened by", "opened")
    for one in found:
        opened = f"{one.opened_at:%F %T}"
        table.add_row(one.sku, one.kind, one.state, str(one.quantity), one.source, one.reason, one.opened_by, opened)
    Console().print(table)


@app.command(epilog="Example: fairgate sku halt general-admission --reason 'the price is wrong'")
def halt(name: str, reason: ReasonOption, data: DataOption = DEFAULT_DATA) -> None:
    """Grant no more holds at once; what is held may still be paid, confirmed and released."""
    _set_state(name, "halted", reason, data)


@app.command(epilog="Example: fairgate sku resume general-admission --reason 'the price is right'")
def resume(name: str, reason: ReasonOption, data: DataOption = DEFAULT_DATA) -> None:
    """Let a halted sale go on."""
    _set_state(name, "on_sale", reason, data)


async def find(stock: Stock, name: str) -> Sku:
    """The SKU with that name. Raises Problem not-found."""
    sku = await stock.find_sku(name)
    if sku is None:
        raise no_sku(name)
    return sku


def _set_state(name: str, state: Literal["halted", "on_sale"], reason: str, data: DataOption) -> None:
    async def work() -> Done | Refused:
        why = decode_json(orjson.dumps({"reason": reason}), ReasonBody).reason
        async with open_books(data) as books:
            stock = Stock(books.pool)
            return await stock.halt((await find(stock, name)).id, state, why, ACTOR)

    _say(run(work()))


def _say(outcome: Done | Refused) -> None:
    if isinstance(outcome, Refused):
        fail(refusal(outcome).detail)
    print(outcome.document)
