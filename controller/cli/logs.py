"""`arl logs`: what a trial's programs wrote on their standard output and error."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from controller.cli.naming import find_trial_id
from controller.cli.opening import ledger_opened
from controller.cli.output import OK, print_json
from controller.cli.text import plain
from controller.documents.log_text import CHUNK, LogReader, LogText, handle_of, log_reader
from ledger import reads
from ledger.database import Ledger
from ledger.errors import ArlError, InvalidInput, NotFound
from ledger.records import Attempt, Json
from ledger.states import ATTEMPT_TERMINAL, TRIAL_TERMINAL, AttemptState

FOLLOW_EVERY_S: Final = 0.2

TrialArgument = Annotated[
    str, typer.Argument(metavar="TRIAL", help="STUDY/NUMBER or a trial's id")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="go on until the trial has ended")]
Which = Annotated[
    str | None, typer.Option("--attempt", help="only this attempt: its id, or its place from 0")
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object, and nothing else")]


def logs(
    trial: TrialArgument, follow: Follow = False, attempt: Which = None, as_json: AsJson = False
) -> int:
    """Print what a trial's programs said, attempt by attempt. Control characters are shown, not
    obeyed; of a very long log the head and the tail are there."""
    if follow and as_json:
        raise InvalidInput("--follow: it cannot be combined with --json; leave one of them out")
    with ledger_opened() as ledger, log_reader() as reader:
        with ledger.read() as session:
            trial_id = find_trial_id(session, trial)
            detail = reads.get_trial(session, trial_id)
        chosen = _chosen(detail.attempts, attempt)
        if as_json:
            print_json({"trial": trial_id, "attempts": [_document(reader, a) for a in chosen]})
        elif follow:
            _follow(ledger, reader, trial_id, attempt)
        else:
            for one in chosen:
                if len(chosen) > 1:
                    _heading(one)
                _copy(reader, one, 0, LogText())
    return OK


def _chosen(attempts: Sequence[Attempt], which: str | None) -> list[Attempt]:
    if which is None:
        return list(attempts)
    found = [a for a in attempts if a.id == which]
    if not found and which.isdecimal() and len(which) < 6:
        found = list(attempts[int(which) : int(which) + 1])
    if not found:
        known = ", ".join(a.id for a in attempts) or "none yet"
        raise NotFound(f"--attempt: the trial has no attempt {plain(which)}; it has {known}")
    return found


def _document(reader: LogReader, attempt: Attempt) -> dict[str, Json]:
    text, parts, offset = LogText(), [], 0
    while True:
        chunk = reader.read_log(handle_of(attempt), offset=offset, limit=CHUNK)
        if not chunk.data:
            break
        parts.append(text.add(chunk.data))
        offset = chunk.offset + len(chunk.data)
    return {
        "id": attempt.id,
        "kind": str(attempt.kind),
        "state": str(attempt.state),
        "size_bytes": offset,
        "log": "".join(parts),
    }


def _heading(attempt: Attempt) -> None:
    split = f" {attempt.split}" if attempt.split is not None else ""
    print(f"==> {attempt.id} ({attempt.kind}{split}, {attempt.state}) <==")


def _copy(reader: LogReader, attempt: Attempt, offset: int, text: LogText) -> int:
    """Print everything from `offset` on; the offset to go on from."""
    while True:
        chunk = reader.read_log(handle_of(attempt), offset=offset, limit=CHUNK)
        if not chunk.data:
            sys.stdout.flush()
            return offset
        sys.stdout.write(text.add(chunk.data))
        offset = chunk.offset + len(chunk.data)


def _follow(ledger: Ledger, reader: LogReader, trial_id: str, which: str | None) -> None:
    """Copy each attempt as it goes, until the trial (or the one attempt) has ended."""
    offsets: dict[str, int] = {}
    texts: dict[str, LogText] = {}
    while True:
        with ledger.read() as session:
            detail = reads.get_trial(session, trial_id)
        chosen = _chosen(detail.attempts, which)
        for attempt in chosen:
            if attempt.id not in offsets and len(detail.attempts) > 1 and which is None:
                _heading(attempt)
            text = texts.setdefault(attempt.id, LogText())
            try:
                offsets[attempt.id] = _copy(reader, attempt, offsets.get(attempt.id, 0), text)
            except ArlError:
                offsets.setdefault(attempt.id, 0)  # its directory is still being made
        if _is_over(detail, chosen, which):
            return
        time.sleep(FOLLOW_EVERY_S)


def _is_over(detail: reads.TrialDetail, chosen: list[Attempt], which: str | None) -> bool:
    if detail.trial.state in TRIAL_TERMINAL:
        return True
    ended = (*ATTEMPT_TERMINAL, AttemptState.EXITED)
    return which is not None and all(a.state in ended for a in chosen)
