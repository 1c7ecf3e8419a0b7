"""The stock engine. Plain SQL stands in the file beside this one."""

from fairgate.migrations.migrate import execute_file

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Bring the stock's tables to what the engine works on."""
    execute_file("0002_engine.sql")
