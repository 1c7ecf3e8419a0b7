"""`fairgate up`: all processes of a small installation on this machine, until Ctrl-C."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from fairgate.cli.books import DEFAULT_DATA, DataOption, fail, run_long, settings_for
from fairgate.house import HOST, Guarded, Ports, check_ports, house_environment, start_front, start_house
from fairgate.stack.embedded import open_stack


def up(
    shop: Annotated[
        str | None, typer.Option(help="Your shop's address: puts nginx with the gate in front of it.")
    ] = None,
    room: Annotated[str | None, typer.Option(help="The room whose pass the gate asks for.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65_000, help="The public port; the next four are used too.")] = 8000,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Run Postgres, Valkey, gateway, stock API and reconciler, and with --shop and --room nginx before your shop."""
    if (shop is None) != (room is None):
        fail("Give --shop and --room together: the gate must know which room's pass to ask for.")
    guarded = None if shop is None or room is None else Guarded(shop, room)
    run_long(_up(data, Ports(port), guarded))


async def _up(data: Path, ports: Ports, guarded: Guarded | None) -> int:
    from fairgate.migrations.migrate import migrate  # SQLAlchemy takes a while to import

    check_ports(ports)
    async with open_stack(data, report=print) as stack:
        os.environ["FAIRGATE_PUBLIC_URL"] = ports.public_url
        settings = settings_for(stack)
        await migrate(settings.database_url)
        await start_house(stack, ports, house_environment(stack, ports))
        print(f"gateway    http://{HOST}:{ports.gateway}\nstock API  http://{HOST}:{ports.stock}")
        if guarded is not None:
            await start_front(stack, ports, guarded, data)
            print(
                f"shop       {ports.public_url}/  (waiting page: {ports.public_url}{settings.prefix}/rooms/{guarded.room})"
            )
        print("Ctrl-C ends it.")
        await asyncio.Event().wait()
    return 0
