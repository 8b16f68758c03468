"""Pages of a list of trials, with kept columns and without."""

from collections.abc import Iterator
from typing import Any

from ledger import reads
from ledger.database import Ledger
from ledger.sort_columns import SortColumns


def pages(
    ledger: Ledger, columns: SortColumns | None, study: str, **asked: Any
) -> Iterator[list[int]]:
    """The numbers of the trials of each page, to the last one."""
    cursor = None
    while True:
        with ledger.read() as session:
            page = reads.list_trials(
                session, study, cursor=cursor, limit=4, columns=columns, **asked
            )
        yield [item.trial.number for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return
