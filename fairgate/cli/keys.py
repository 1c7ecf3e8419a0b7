"""`fairgate keys`: API keys for shops, operators and administrators, and a master key for a new installation."""

import base64
import os
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from chassis.keys import ApiKeys, Role
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, open_books, run

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)


@app.command(epilog="Example: fairgate keys create box-office --role shop")
def create(
    client: Annotated[str, typer.Argument(help="Who will act: a name that outlives its keys.")],
    role: Annotated[str, typer.Option(help="shop, operator or admin.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Print a new key. It is shown this once and stored only as a hash."""

    async def work() -> str:
        async with open_books(data) as books:
            return await ApiKeys(books.pool).create(client, _role(role))

    print(run(work()))


@app.command("list", epilog="Example: fairgate keys list --json")
def list_keys(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """List all keys, without their secrets."""

    async def work() -> list[dict[str, object]]:
        async with open_books(data) as books:
            return [dict(row) for row in await ApiKeys(books.pool).list()]

    rows = run(work())
    if as_json:
        print(orjson.dumps(rows).decode())
        return
    table = Table("key", "client", "role", "created", "revoked")
    for row in rows:
        table.add_row(
            str(row["id"]),
            str(row["client"]),
            str(row["role"]),
            f"{row['created_at']:%F %T}",
            str(row["revoked_at"] or ""),
        )
    Console().print(table)


@app.command(epilog="Example: fairgate keys revoke 3f9a0c51d2e7")
def revoke(
    key_id: Annotated[str, typer.Argument(help="The part of the key between its two underscores.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """End a key; every process refuses it within two seconds."""

    async def work() -> None:
        async with open_books(data) as books:
            await ApiKeys(books.pool).revoke(key_id)

    run(work())
    print(f"Key {key_id} is revoked.")


@app.command(epilog="Example: fairgate keys master > master.key")
def master() -> None:
    """Print a new master key for FAIRGATE_MASTER_KEY. Losing it loses the signing keys sealed with it."""
    print(base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("="))


def _role(text: str) -> Role:
    match text:
        case "shop" | "operator" | "admin":
            return text
        case _:
            raise typer.BadParameter(f"{text!r} is no role: use shop, operator or admin.", param_hint="--role")
