"""`arl db`: the version of the ledger's tables, copies of it, and going on from an older one."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.opening import actor
from controller.cli.output import OK, print_json
from controller.cli.text import plain, size
from controller.settings import Settings, read_settings
from controller.witness import check_not_restored
from ledger.backup import back_up
from ledger.database import connect, ledger_url, open_ledger
from ledger.errors import InvalidInput, LedgerTooNew, LedgerUnavailable
from ledger.schema import REVISIONS, find_revision, upgrade_schema


class Action(StrEnum):
    CHECK = "check"
    UPGRADE = "upgrade"
    BACKUP = "backup"
    ACCEPT_RESTORE = "accept-restore"


What = Annotated[
    Action, typer.Argument(metavar="check|upgrade|backup|accept-restore", help="what to do")
]
ToFile = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="backup: the new file to write")
]
Note = Annotated[str, typer.Option("--note", help="accept-restore: why, for the ledger")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def db(action: What, file: ToFile = None, note: Note = "", as_json: AsJson = False) -> int:
    """Check that this ARL can use the ledger, bring its tables to this version, or copy it.

    backup FILE copies a SQLite ledger while it is used; of PostgreSQL it says the command.
    accept-restore goes on with an older copy that was put in the ledger's place: what came after
    it is given up, and an entry says so; stop every worker and server first.

    Make a backup before an upgrade. Exit code 5: the ledger is older, newer, put back to an older
    state, or not there.
    """
    settings = read_settings()
    if file is not None and action is not Action.BACKUP:
        raise InvalidInput(f"db {action}: it takes no file; leave {plain(str(file))} out")
    if note and action is not Action.ACCEPT_RESTORE:
        raise InvalidInput(f"db {action}: it takes no --note")
    if action is Action.BACKUP:
        return _backup(settings, file, as_json=as_json)
    if action is Action.ACCEPT_RESTORE:
        return _accept(settings, note, as_json=as_json)
    return _check(settings, upgrade=action is Action.UPGRADE, as_json=as_json)


def _check(settings: Settings, *, upgrade: bool, as_json: bool) -> int:
    before = _upgrade(settings.ledger_url) if upgrade else None
    ledger = open_ledger(settings.ledger_url, create=False)
    try:
        check_not_restored(ledger, settings)
    finally:
        ledger.close()
    where, newest = ledger.where, REVISIONS[-1]
    if as_json:
        print_json({"ledger": where, "revision": newest, "before": before or newest, "ok": True})
    elif before not in (None, newest):
        print(f"{plain(where)}: upgraded from {before} to {newest}")
    else:
        print(f"{plain(where)}: at revision {newest}, as this ARL needs")
    return OK


def _backup(settings: Settings, file: Path | None, *, as_json: bool) -> int:
    if file is None:
        raise InvalidInput("db backup: say which file to write: `arl db backup FILE`")
    ledger = open_ledger(settings.ledger_url, create=False)
    where = ledger.where
    ledger.close()
    if settings.ledger_file is None:
        raise InvalidInput(
            f"{plain(where)} is a PostgreSQL database, which its own programs copy: "
            f"pg_dump --format=custom --file={plain(str(file))} and the address in ARL_LEDGER"
        )
    written = back_up(settings.ledger_file, file.absolute())
    if as_json:
        print_json({"ledger": where, "file": str(file), "size_bytes": written})
    else:
        print(f"{plain(where)}: copied to {plain(str(file))} ({size(written)})")
        print(f"the models are in {plain(str(settings.home / 'artifacts'))}: copy that afterwards")
    return OK


def _accept(settings: Settings, note: str, *, as_json: bool) -> int:

    from controller.worker.restoring import accept_restore

    found, ended = accept_restore(settings, note, actor())
    lost = found.witnessed - found.held
    if as_json:
        print_json({"held": found.held, "lost": lost, "ended": ended})
    else:
        print(f"goes on from {found.held} entries; {lost} that came after are given up")
        if ended:
            print(f"{ended} attempts that only those knew were ended")
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
