"""Alembic migrations of the ledger, installed with it."""
