"""Draws a snapshot of the sale in the terminal (pure): line, holds and sales, sub-counter levels, and the invariant."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fairgate.demo.watch import SkuFigures, Snapshot
from loadtest.progress import Progress

BAR_WIDTH = 40
BLOCKS = " ▁▂▃▄▅▆▇█"
AWAY = "away, coming back"


def draw(snapshot: Snapshot, progress: Progress, seconds: float, news: Sequence[str]) -> RenderableType:
    """The live view: `seconds` since the start, `news` the last few events worth a line."""
    parts: list[RenderableType] = [_line_panel(snapshot, progress, seconds)]
    if snapshot.skus is None:
        parts.append(Panel(Text(f"Postgres is {AWAY}", style="yellow"), title="Stock"))
    else:
        parts += [_sku_panel(sku) for sku in snapshot.skus]
        parts.append(_invariant(snapshot.skus))
    parts += [Text(line, style="yellow") for line in news]
    return Group(*parts)


def summary(snapshot: Snapshot, progress: Progress, seconds: float) -> str:
    """The same in one line, for a terminal that is none."""
    stock = "stock away" if snapshot.skus is None else "; ".join(
        f"{sku.name} {sku.sold} sold, {sku.held} held, {sku.free} free, {sku.returned} came back" for sku in snapshot.skus
    )  # fmt: skip
    return (
        f"{seconds:5.0f} s  {snapshot.phase or 'line away'}: {_number(snapshot.waiting)} wait, "
        f"{_number(snapshot.admitted)} admitted, {progress.ended} of {progress.shoppers} done; {stock}"
    )


def _line_panel(snapshot: Snapshot, progress: Progress, seconds: float) -> Panel:
    table = Table.grid(padding=(0, 3))
    pace = "–" if snapshot.admitted_per_second is None else f"{snapshot.admitted_per_second:.1f} / s"
    rate = "" if snapshot.rate_per_second is None else f" of {snapshot.rate_per_second:.1f} / s allowed"
    table.add_row(
        f"[bold]{_number(snapshot.waiting)}[/] in line",
        f"[bold]{_number(snapshot.admitted)}[/] admitted",
        f"[bold]{pace}[/]{rate}",
        f"[bold]{_number(snapshot.active)}[/] in the shop",
    )
    table.add_row(
        f"{progress.arrived} of {progress.shoppers} shoppers arrived",
        f"{progress.sold} bought",
        f"{progress.refused} refused",
        f"{progress.ended} gone home",
    )
    return Panel(table, title=f"The line: {snapshot.phase or AWAY}", subtitle=f"{seconds:.0f} s", title_align="left")


def _sku_panel(sku: SkuFigures) -> Panel:
    table = Table.grid(padding=(0, 3))
    table.add_row(_bar(sku), f"{sku.sold} sold, {sku.held} held ({sku.paying} paying), {sku.free} free of {sku.total}")
    if sku.levels:
        highest = max(*sku.levels, 1) if len(sku.levels) > 1 else max(sku.levels[0], 1)
        bars = "".join(BLOCKS[round(level / highest * (len(BLOCKS) - 1))] + " " for level in sku.levels)
        table.add_row(
            Text(bars, style="cyan"), f"{len(sku.levels)} sub-counters, the fullest has {max(sku.levels)} free"
        )
    table.add_row("", f"{sku.returned} came back from expired and released holds, {sku.due} due for the sweep")
    return Panel(table, title=sku.name, title_align="left")


def _bar(sku: SkuFigures) -> Text:
    sold = round(BAR_WIDTH * sku.sold / max(sku.total, 1))
    held = min(BAR_WIDTH - sold, round(BAR_WIDTH * sku.held / max(sku.total, 1)))
    return Text.assemble(("█" * sold, "green"), ("▒" * held, "yellow"), ("·" * (BAR_WIDTH - sold - held), "dim"))


def _invariant(skus: Sequence[SkuFigures]) -> Text:
    off = sum(sku.off for sku in skus)
    oversold = sum(max(0, sku.held + sku.sold - sku.total) for sku in skus)
    text = f"Invariant: sub-counters off their holds and sales {off}, oversold {oversold}"
    return Text(text, style="bold green" if off == oversold == 0 else "bold red")


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
