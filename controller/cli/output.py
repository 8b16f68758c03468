"""Where the command line's words go: JSON, tables, and exit codes for errors."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from controller.documents.finite import flagged
from ledger import errors as er
from ledger.records import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

OK: Final = 0
CHECK_FAILED: Final = 1
BAD_INPUT: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
INFRASTRUCTURE: Final = 5
STUDY_FAILED: Final = 6
BUG: Final = 70
INTERRUPTED: Final = 130

_CODES: Final[Mapping[type[er.ArlError], int]] = {
    er.NotFound: NOT_FOUND,
    er.InvalidInput: BAD_INPUT,
    er.UnknownName: BAD_INPUT,
    er.Conflict: CONFLICT,
    er.StudyBusy: CONFLICT,
    er.StaleFence: CONFLICT,
    er.IllegalTransition: CONFLICT,
    er.BudgetExceeded: CONFLICT,
    er.LedgerUnavailable: INFRASTRUCTURE,
    er.LedgerTooNew: INFRASTRUCTURE,
    er.LedgerTooOld: INFRASTRUCTURE,
    er.LedgerRestored: INFRASTRUCTURE,
    er.DiskFull: INFRASTRUCTURE,
    er.TargetUnavailable: INFRASTRUCTURE,
    er.BundleChanged: CHECK_FAILED,
    er.ArtifactCorrupt: CHECK_FAILED,
    er.ProposerFailed: STUDY_FAILED,
}


def exit_code(error: er.ArlError) -> int:
    """What the process ends with when this error ends it."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return CHECK_FAILED


_COPIED: Final = frozenset({"study", "candidate", "attempt", "notification", "token"})
"""Columns with ids."""

_LEAST: Final = 4
_BETWEEN: Final = 3
"""Characters of a column of text, and between two columns."""


def print_json(document: Mapping[str, Json]) -> None:
    """One JSON object on standard output; numbers that are not finite are null and listed."""
    print(json.dumps(flagged(document), indent=2))


def console() -> "Console":
    """Standard output as rich sees it, taking no markup from any string it is given."""
    from rich.console import Console

    piped = None if sys.stdout.isatty() else 160
    return Console(markup=False, highlight=False, emoji=False, width=piped, soft_wrap=False)


def table(*columns: str, rows: Iterable[Sequence[str]], title: str = "") -> "Table":
    """A table of safe strings. A column whose name starts with `>` is right-aligned.

    Nothing is cut on a narrow terminal: text goes on in the next line, and where there is room
    for it at all, numbers and what one copies stay whole."""
    from rich import box
    from rich.table import Table

    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    rows = list(rows)
    whole = {
        place: max(len(name), *(len(row[place]) for row in rows), 0)
        for place, name in enumerate(columns)
        if name.startswith(">") or name in _COPIED
    }
    least = sum(whole.values()) + _LEAST * (len(columns) - len(whole)) + _BETWEEN * len(columns)
    has_room = least <= console().width
    for place, name in enumerate(columns):
        made.add_column(
            name.removeprefix(">"),
            justify="right" if name.startswith(">") else "left",
            overflow="fold",
            no_wrap=has_room and place in whole,
        )
    for row in rows:
        made.add_row(*row)
    return made
