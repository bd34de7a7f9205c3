"""Alembic's entry: runs on the connection and in the transaction that `app.migrations` opened."""

from alembic import context

from app.migrations import SCHEMA

context.configure(
    connection=context.config.attributes["connection"],
    version_table_schema=SCHEMA,
)
context.run_migrations()
