"""Cursors of lists that go by time and id: opaque, and the same place however many come."""

import base64
import json

from ledger.digests import canonical_json
from ledger.errors import InvalidInput


def write_cursor(at: float, row_id: str) -> str:
    """Of the row that a page ends with."""
    return base64.urlsafe_b64encode(canonical_json([at, row_id]).encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[float, str]:
    """Raises InvalidInput."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        at, row_id = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if type(at) is not float or type(row_id) is not str or "\0" in row_id:
            raise TypeError(at)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(
            "cursor: it is none of this list's; leave it out to start again"
        ) from error
    return at, row_id
