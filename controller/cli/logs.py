"""`arl logs`: what a trial's programs wrote on their standard output and error."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from controller.cli.output import OK, print_json
from controller.cli.show_study import listed
from controller.cli.source import Source, source_opened
from controller.cli.text import plain
from ledger.errors import ArlError, InvalidInput, NotFound
from ledger.records import Json
from ledger.states import ATTEMPT_TERMINAL, TRIAL_TERMINAL, AttemptState

FOLLOW_EVERY_S: Final = 0.2
_ENDED: Final = frozenset(map(str, (*ATTEMPT_TERMINAL, AttemptState.EXITED)))
_OVER: Final = frozenset(map(str, TRIAL_TERMINAL))

Attempt = Mapping[str, Json]

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
    with source_opened() as source:
        found = source.trial(trial)
        chosen = _chosen(found, attempt)
        if as_json:
            documents: list[Json] = [_document(source, a) for a in chosen]
            print_json({"trial": found["id"], "attempts": documents})
        elif follow:
            _follow(source, str(found["id"]), attempt)
        else:
            for one in chosen:
                if len(chosen) > 1:
                    _heading(one)
                _copy(source, one, 0)
    return OK


def _chosen(trial: Mapping[str, Json], which: str | None) -> Sequence[Attempt]:
    attempts = list(listed(trial, "attempts"))
    if which is None:
        return attempts
    found = [a for a in attempts if a["id"] == which]
    if not found and which.isdecimal() and len(which) < 6:
        found = attempts[int(which) : int(which) + 1]
    if not found:
        known = ", ".join(str(a["id"]) for a in attempts) or "none yet"
        raise NotFound(f"--attempt: the trial has no attempt {plain(which)}; it has {known}")
    return found


def _document(source: Source, attempt: Attempt) -> dict[str, Json]:
    parts: list[str] = []
    offset = 0
    while True:
        text, after = source.log(str(attempt["id"]), offset)
        if after == offset:
            break
        parts.append(text)
        offset = after
    return {
        "id": attempt["id"],
        "kind": attempt["kind"],
        "state": attempt["state"],
        "size_bytes": offset,
        "log": "".join(parts),
    }


def _heading(attempt: Attempt) -> None:
    split = f" {attempt['split']}" if attempt.get("split") is not None else ""
    print(f"==> {attempt['id']} ({attempt['kind']}{split}, {attempt['state']}) <==")


def _copy(source: Source, attempt: Attempt, offset: int) -> int:
    """Print everything from `offset` on; the offset to go on from."""
    while True:
        text, after = source.log(str(attempt["id"]), offset)
        if after == offset:
            sys.stdout.flush()
            return offset
        sys.stdout.write(text)
        offset = after


def _follow(source: Source, trial_id: str, which: str | None) -> None:
    """Copy each attempt as it goes, until the trial (or the one attempt) has ended."""
    offsets: dict[str, int] = {}
    while True:
        trial = source.trial(trial_id)
        chosen = _chosen(trial, which)
        several = which is None and len(list(listed(trial, "attempts"))) > 1
        for attempt in chosen:
            name = str(attempt["id"])
            if name not in offsets and several:
                _heading(attempt)
            try:
                offsets[name] = _copy(source, attempt, offsets.get(name, 0))
            except ArlError:
                offsets.setdefault(name, 0)  # its directory is still being made
        if _is_over(trial, chosen, which):
            return
        time.sleep(FOLLOW_EVERY_S)


def _is_over(trial: Mapping[str, Json], chosen: Sequence[Attempt], which: str | None) -> bool:
    if trial["state"] in _OVER:
        return True
    return which is not None and all(a["state"] in _ENDED for a in chosen)
