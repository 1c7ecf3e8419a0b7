"""`fairgate bench`: measure the stock engine and the stock API on this machine, on servers started for it alone."""

from chassis.database import read_text

# What the migrations do to the stock's tables; the strategies for comparison get tables of their own made by it.
STOCK_SCRIPTS = ("0001_stock.sql", "0002_engine.sql")


def stock_tables() -> tuple[str, ...]:
    """The scripts that make the stock's tables, in order."""
    return tuple(read_text("fairgate.migrations", "versions", name) for name in STOCK_SCRIPTS)
