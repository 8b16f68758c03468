"""Runs the migrations on the connection that ledger.schema hands over."""

from alembic import context

from ledger.tables import Base

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("migrations run through `arl db upgrade`, which opens the ledger first")
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
