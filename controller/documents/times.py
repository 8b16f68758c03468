"""Moments as documents write them."""

from datetime import UTC, datetime


def iso(seconds: float | None) -> str | None:
    """ISO 8601 in UTC with its offset, to the millisecond."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
