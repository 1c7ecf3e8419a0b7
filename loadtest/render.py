"""Shows a verdict as a table: what was measured, against what, and every fault in words."""

from rich import box
from rich.markup import escape
from rich.table import Table

from loadtest.verdict import Verdict


def render(verdict: Verdict) -> Table:
    """The verdict's rows, with a mark that does not depend on colour."""
    title = "Verdict: every promise was kept" if verdict.ok else "Verdict: a promise was broken"
    table = Table(title=title, title_style="bold green" if verdict.ok else "bold red", box=box.SIMPLE_HEAD)
    table.add_column("")
    table.add_column("What")
    table.add_column("Measured", justify="right", overflow="fold", min_width=20)
    table.add_column("Bound", justify="right")
    table.add_column("", overflow="fold")
    for check in verdict.rows:
        mark = "[green]ok[/green]" if check.ok else "[bold red]BROKEN[/bold red]"
        aside = f"[red]{escape(check.said)}[/red]" if check.faults else f"[dim]{escape(check.note)}[/dim]"
        table.add_row(mark if check.bound or check.faults else "", check.name, check.measured, check.bound, aside)
    return table
