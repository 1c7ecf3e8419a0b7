"""Alembic's entry: runs the migrations over the asyncpg connection that migrate.py hands in."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)
with context.begin_transaction():
    context.run_migrations()
