"""`arl db`: the version of the ledger's tables."""

from enum import StrEnum
from typing import Annotated

import typer

from controller.cli.output import OK, print_json
from controller.cli.text import plain
from controller.settings import read_settings
from ledger.database import connect, ledger_url, open_ledger
from ledger.errors import LedgerTooNew, LedgerUnavailable
from ledger.schema import REVISIONS, find_revision, upgrade_schema


class Action(StrEnum):
    CHECK = "check"
    UPGRADE = "upgrade"


What = Annotated[Action, typer.Argument(metavar="check|upgrade", help="what to do")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def db(action: What, as_json: AsJson = False) -> int:
    """Check that this ARL can use the ledger, or bring its tables to this version.

    Make a backup before an upgrade. Exit code 5: the ledger is older, newer or not there.
    """
    url = read_settings().ledger_url
    before = None
    if action is Action.UPGRADE:
        before = _upgrade(url)
    ledger = open_ledger(url, create=False)
    where = ledger.where
    ledger.close()
    newest = REVISIONS[-1]
    if as_json:
        print_json({"ledger": where, "revision": newest, "before": before or newest, "ok": True})
    elif before not in (None, newest):
        print(f"{plain(where)}: upgraded from {before} to {newest}")
    else:
        print(f"{plain(where)}: at revision {newest}, as this ARL needs")
    return OK


def _upgrade(url: str) -> str:
    """Apply what is missing; the revision before. Never makes a ledger or goes back."""
    engine, where = connect(ledger_url(url), create=False)
    try:
        with engine.connect() as connection:
            before = find_revision(connection)
        if before is None:
            raise LedgerUnavailable(f"{where} is not an ARL ledger: `arl run` makes one")
        if before not in REVISIONS:
            raise LedgerTooNew(f"{where} is at revision {before}: use the newer ARL that wrote it")
        upgrade_schema(engine)
        return before
    finally:
        engine.dispose()
