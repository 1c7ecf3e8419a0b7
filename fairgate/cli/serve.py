"""`fairgate serve` and `fairgate migrate`: one process each, for those who run Postgres and Redis themselves."""

import typer

from chassis.serve import serve
from chassis.settings import Settings
from fairgate.cli.books import run

app = typer.Typer(help="Run one process on the servers that FAIRGATE_* variables name.", no_args_is_help=True)


async def _settings() -> Settings:
    return Settings.from_environment()


@app.command(epilog="Example: FAIRGATE_GATEWAY_WORKERS=2 fairgate serve gateway")
def gateway() -> None:
    """The line: rooms, tickets, passes, the gate."""
    settings = run(_settings())
    serve(
        "admission.app:create", host=settings.gateway_host, port=settings.gateway_port, workers=settings.gateway_workers
    )


@app.command(epilog="Example: FAIRGATE_STOCK_WORKERS=2 fairgate serve stock")
def stock() -> None:
    """The stock API: holds and sales."""
    settings = run(_settings())
    serve(
        "counters.app:create",
        host=settings.stock_host,
        port=settings.stock_port,
        workers=settings.stock_workers,
        proxied=False,
    )


@app.command(epilog="Example: fairgate serve reconciler")
def reconciler() -> None:
    """Sweep, rebalance, repair and settle, under a lease."""
    settings = run(_settings())
    serve("reconciler.app:create", host=settings.reconciler_host, port=settings.reconciler_port, workers=1)


def migrate() -> None:
    """Bring the database to this version's schema; safe to repeat and to run while another version serves."""
    from fairgate.migrations.migrate import migrate as bring_up_to_date  # SQLAlchemy takes a while to import

    async def work() -> bool:
        return await bring_up_to_date(Settings.from_environment().database_url)

    print("The database is migrated." if run(work()) else "The database was up to date.")
