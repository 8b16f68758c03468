"""Indexes of some rows only, which cost nothing until a row is one of them."""

from sqlalchemy import Index, text


def known_index(first: str, *columns: str) -> Index:
    """Of the trials that have `first`: written once, when a trial gets it."""
    has = text(f"{first} IS NOT NULL")
    name = f"ix_trials_study_id_{first}"
    return Index(name, "study_id", first, *columns, sqlite_where=has, postgresql_where=has)


def released_index() -> Index:
    """Of the artifacts that were let go."""
    has = text("released_at IS NOT NULL")
    name = "ix_artifacts_released"
    return Index(name, "digest", sqlite_where=has, postgresql_where=has)
