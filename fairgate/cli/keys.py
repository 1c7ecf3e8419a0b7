"""`fairgate keys`: API keys for whoever calls, signing keys for passes and tickets, a master key for a new installation."""

import base64
import os
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Column, Table

from admission.signing_keys import Purpose, SigningKey, SigningKeys
from chassis.keys import ApiKeys, Role
from fairgate.cli.books import DEFAULT_DATA, DataOption, JsonOption, open_books, run

ACTOR = "command line"
app = typer.Typer(help="Make, list and revoke API keys; rotate and revoke signing keys.", no_args_is_help=True)


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
    table = Table(Column("key", overflow="fold"), "client", "role", "created", "revoked")
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


@app.command(epilog="Example: fairgate keys signing --json")
def signing(data: DataOption = DEFAULT_DATA, as_json: JsonOption = False) -> None:
    """List the keys that sign passes and tickets, newest first."""

    async def work() -> list[SigningKey]:
        async with open_books(data) as books:
            return await SigningKeys(books.pool, books.settings.master_key_bytes).list()

    keys = run(work())
    if as_json:
        print(orjson.dumps([key.document() for key in keys]).decode())
        return
    table = Table(Column("key", overflow="fold"), "signs", "state", "created", "signs from", "retired", "revoked")
    for key in keys:
        moments = (key.created_at, key.activates_at, key.retired_at, key.revoked_at)
        table.add_row(key.kid, key.purpose, key.state, *(f"{moment:%F %T}" if moment else "" for moment in moments))
    Console().print(table)


@app.command(epilog="Example: fairgate keys rotate pass")
def rotate(
    purpose: Annotated[str, typer.Argument(help="pass or ticket: what the key signs.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Let a new key sign, five seconds after every worker has been told. What the old one signed stays valid."""
    wanted = _purpose(purpose)

    async def work() -> tuple[SigningKey, bool]:
        async with open_books(data) as books:
            keys = SigningKeys(books.pool, books.settings.master_key_bytes)
            return await keys.rotate(wanted, actor=ACTOR)

    key, made = run(work())
    said = "is published and" if made else "waits already and"
    print(f"Key {key.kid} {said} signs every {purpose} from {key.activates_at:%F %T} UTC on.")


@app.command("revoke-signing", epilog="Example: fairgate keys revoke-signing 3f9a0c51d2e7")
def revoke_signing(
    kid: Annotated[str, typer.Argument(help="The key's id: see `fairgate keys signing`.")],
    data: DataOption = DEFAULT_DATA,
) -> None:
    """End a signing key that has leaked: all that it signed is refused within two seconds. Another signs at once.

    Buyers whose pass is refused get it again for their ticket; a refused ticket's place is given back to whoever joins
    again with the same secret. Places that had moved to another device are lost with a ticket key.
    """

    async def work() -> SigningKey:
        async with open_books(data) as books:
            return await SigningKeys(books.pool, books.settings.master_key_bytes).revoke(kid, actor=ACTOR)

    key = run(work())
    print(f"Key {key.kid} is revoked: every {key.purpose} that it signed is refused within two seconds.")


@app.command(epilog="Example: fairgate keys master > master.key")
def master() -> None:
    """Print a new master key for FAIRGATE_MASTER_KEY. Losing it loses the signing keys sealed with it."""
    print(base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("="))


def _purpose(text: str) -> Purpose:
    match text:
        case "pass" | "ticket":
            return text
        case _:
            raise typer.BadParameter(f"{text!r} is neither pass nor ticket.", param_hint="PURPOSE")


def _role(text: str) -> Role:
    match text:
        case "shop" | "operator" | "admin":
            return text
        case _:
            raise typer.BadParameter(f"{text!r} is no role: use shop, operator or admin.", param_hint="--role")
