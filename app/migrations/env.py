"""Alembic's entry: runs on the connection and in the transaction that `app.migrations` opened."""

from alembic import context

from app import database
from app.migrations import HISTORY

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    version_table=HISTORY,
    version_table_schema=database.schema_of(connection),
)
context.run_migrations()
