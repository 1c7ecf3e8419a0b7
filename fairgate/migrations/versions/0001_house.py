"""The first house: API keys and leases, the line, the stock. Plain SQL stands in the files beside this one."""

from fairgate.migrations.migrate import execute_file

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the three schemas."""
    for name in ("0001_chassis.sql", "0001_line.sql", "0001_stock.sql"):
        execute_file(name)
