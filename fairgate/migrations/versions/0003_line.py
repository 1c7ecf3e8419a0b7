"""The line. Plain SQL stands in the file beside this one."""

from fairgate.migrations.migrate import execute_file

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what the line needs. Only additions: workers of the version before go on beside it."""
    execute_file("0003_line.sql")
