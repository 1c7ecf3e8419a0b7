"""`fairgate hold`: what happened to a hold, which wait for their payment, and a person's decision about those that nobody
knows of."""

from datetime import UTC
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from chassis.http import decode_json
from counters.admin_api import hold_document
from counters.answers import refusal
from counters.api import hold_name
from counters.history import History
from counters.history_api import story_document
from counters.rules import Done, Refused, ResolveBody
from counters.store import PayingHold, Stock
from counters.stories import Story, clock
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, fail, open_books, run

app = typer.Typer(help="See what happened to a hold, and end those that wait for their payment.", no_args_is_help=True)


@app.command("list", epilog="Example: fairgate hold list --stuck")
def list_holds(
    stuck: Annotated[bool, typer.Option("--stuck", help="Only those that nobody could explain.")] = False,
    data: DataOption = DEFAULT_DATA,
    as_json: JsonOption = False,
) -> None:
    """List the holds that wait for their payment."""

    async def work() -> list[PayingHold]:
        async with open_books(data) as books:
            return await Stock(books.pool).paying_holds(overdue_only=False)

    holds = [hold for hold in run(work()) if hold.stuck_since or not stuck]
    if as_json:
        print(orjson.dumps([hold_document(hold) for hold in holds]).decode())
        return
    table = Table("sku", "quantity", "paying until", "stuck since")
    table.add_column("hold", no_wrap=True, min_width=36)
    for hold in holds:
        since = f"{hold.stuck_since:%F %T}" if hold.stuck_since else ""
        table.add_row(hold.sku, str(hold.quantity), f"{hold.paying_until:%F %T}", since, str(hold.id))
    Console().print(table)


@app.command(epilog="Example: fairgate hold show 0199…")
def show(hold: str, data: DataOption = DEFAULT_DATA) -> None:
    """Print a hold as it stands now."""

    async def work() -> Done | Refused:
        async with open_books(data) as books:
            return await Stock(books.pool).hold(hold_name(hold), None)

    _say(run(work()))


@app.command(epilog="Example: fairgate hold explain 0199…")
def explain(hold: str, data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """Tell what happened to a hold, when and by whom, and what it would answer now. Times are UTC."""

    async def work() -> Story | None:
        async with open_books(data) as books:
            return await History(books.pool).story(hold_name(hold))

    story = run(work())
    if story is None:
        fail(f"There is no hold {hold}.")
    if as_json:
        print(orjson.dumps(story_document(story)).decode())
        return
    print(f"Hold {story.hold.id} on {story.sku}, {story.hold.created_at.astimezone(UTC):%Y-%m-%d}")
    for event in story.events:
        print(f"{clock(event.at, story.hold.created_at)} {event.what}")
    print(story.now_answers)


@app.command(epilog="Example: fairgate hold resolve 0199… --paid --reason 'bank statement of 30 November'")
def resolve(
    hold: Annotated[str, typer.Argument(help="The hold's id, as `fairgate hold list --stuck` shows it.")],
    paid: Annotated[bool | None, typer.Option("--paid/--unpaid", help="What you found out about the payment.")] = None,
    reason: Annotated[str, typer.Option(help="How you know; it goes into the ledger.")] = "decided by hand",
    data: DataOption = DEFAULT_DATA,
) -> None:
    """End a hold whose payment nobody could explain: --paid sells it, --unpaid gives its units back."""
    if paid is None:
        fail("Say --paid or --unpaid: what did you find out about the payment?")

    async def work() -> Done | Refused:
        found_out = decode_json(orjson.dumps({"outcome": "paid" if paid else "unpaid", "reason": reason}), ResolveBody)
        async with open_books(data) as books:
            return await Stock(books.pool).resolve(
                hold_name(hold), found_out.outcome, overdue_only=False, actor="operator:cli", reason=found_out.reason
            )

    _say(run(work()))


def _say(outcome: Done | Refused) -> None:
    if isinstance(outcome, Refused):
        fail(refusal(outcome).detail)
    print(outcome.document)
