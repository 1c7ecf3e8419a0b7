"""`fairgate simulate`: the line's own controller against a crowd that is made up, under a virtual clock."""

from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.table import Table

from admission.room_settings import RoomSettings
from fairgate.cli.books import JsonOption
from loadtest.line_simulation import RATE_ERROR_MAX, Crowd, Simulated, simulate

app = typer.Typer(help="Try settings of a room without a server.", no_args_is_help=True)


@app.callback()
def simulations() -> None:
    """Try settings of a room without a server."""


@app.command(epilog="Example: fairgate simulate line --rate 600 --no-shows 0.3 --minutes 30")
def line(
    rate: Annotated[int, typer.Option(min=1, max=60_000, help="Admissions a minute.")] = 600,
    active_max: Annotated[int | None, typer.Option(min=1, help="How many may be inside at once.")] = None,
    turn_seconds: Annotated[int, typer.Option(min=5, max=3_600, help="How long a turn lasts.")] = 120,
    waiting: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many stand in line.")] = 100_000,
    no_shows: Annotated[float, typer.Option(min=0, max=1, help="The share that never comes.")] = 0.3,
    heads: Annotated[int, typer.Option(min=0, help="How many at the head have a share of their own that is gone.")] = 0,
    heads_gone: Annotated[float, typer.Option(min=0, max=1, help="That share.")] = 0.9,
    minutes: Annotated[int, typer.Option(min=1, max=600, help="How long the sale lasts.")] = 30,
    seed: Annotated[int, typer.Option(help="The same seed gives the same sale.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Run a sale's line and print admissions against the rate. Exit code 0 only when the rate, I7 and the cap held."""
    settings = RoomSettings(method="fifo", rate_per_minute=rate, active_max=active_max, turn_seconds=turn_seconds)
    crowd = Crowd(waiting=waiting, no_shows=no_shows, heads=heads, heads_gone=heads_gone)
    sale = simulate(settings, crowd, minutes=minutes, seed=seed)
    judged = not sale.ran_dry and active_max is None  # a cap, or an empty line, keeps admissions below the rate
    kept = sale.within_bounds and not (judged and sale.rate_error > RATE_ERROR_MAX)
    if as_json:
        print(orjson.dumps(_document(sale, kept)).decode())
    else:
        _print(sale, judged)
    if not kept:
        raise typer.Exit(1)


def _document(sale: Simulated, kept: bool) -> dict[str, object]:
    return {
        "admissions_per_minute": sale.by_minute,
        "rate_per_minute": sale.settings.rate_per_minute,
        "rate_error": round(sale.rate_error, 5),
        "window_max": sale.window_max,
        "window_bound": sale.window_bound,
        "active_max": sale.active_max,
        "called": sale.called,
        "kept": kept,
    }


def _print(sale: Simulated, judged: bool) -> None:
    rate = sale.settings.rate_per_minute
    minutes = Table(
        "minute", "admitted", "of the rate", title=f"{len(sale.admissions_ms)} admitted, {sale.called} called"
    )
    for number, admitted in enumerate(sale.by_minute, start=1):
        minutes.add_row(str(number), str(admitted), f"{admitted / rate:.1%}")
    figures = Table("promise", "seen", "bound")
    figures.add_row(
        "admissions short of the rate", f"{sale.rate_error:.2%}", f"{RATE_ERROR_MAX:.0%}" if judged else "-"
    )
    figures.add_row("most in any 60 seconds (I7)", str(sale.window_max), f"{sale.window_bound:g}")
    figures.add_row("most inside at once", str(sale.active_max), str(sale.settings.active_max or "-"))
    Console().print(minutes, figures)
