"""`fairgate demo`: the main job, a whole onsale day on this machine."""

from typing import Annotated

import typer

from fairgate.cli.books import DEFAULT_DATA, DataOption, run_long

LEAST_RATE_PER_MINUTE = 120


def demo(
    shoppers: Annotated[int, typer.Option(min=1, max=20_000, help="How many shoppers come.")] = 2_000,
    rate: Annotated[
        int | None, typer.Option(min=1, max=600_000, help="Admissions per minute; default: all in 50 s.")
    ] = None,
    active_max: Annotated[int, typer.Option(min=1, help="How many may shop at once.")] = 400,
    port: Annotated[int, typer.Option(min=1, max=65_000, help="The public port; the next four are used too.")] = 8000,
    seed: Annotated[int, typer.Option(help="The crowd's random choices.")] = 2026,
    exit_after: Annotated[bool, typer.Option("--exit", help="End after the verdict instead of staying open.")] = False,
    data: DataOption = DEFAULT_DATA,
) -> None:
    """Start everything, let a crowd through the line to the shop, and judge the sale. Exit code 0 when every promise held."""
    from rich.console import Console

    from fairgate.demo.run import Plan, run_demo  # imports the whole house

    rate_per_minute = rate or max(LEAST_RATE_PER_MINUTE, shoppers * 6 // 5)
    plan = Plan(data, port, shoppers, rate_per_minute, active_max, seed, exit_after)
    run_long(run_demo(plan, Console()))
