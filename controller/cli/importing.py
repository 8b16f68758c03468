"""`arl import`: another tool's study as history in the ledger, or as the beginning of one here."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controller.cli.opening import actor, remember_heads, service_opened
from controller.cli.output import OK, print_json
from controller.cli.text import plain
from ledger.errors import Conflict, DiskFull, InvalidInput
from ledger.records import Json

if TYPE_CHECKING:
    from controller.interchange.taking_in import Taken
    from controller.steps.importing import ImportedStudy


class Source(StrEnum):
    OPTUNA = "optuna"
    AUTORESEARCH_RL = "autoresearch-rl"


_NAME_RULE: Final = "letters, digits and . _ - only, at most 100, beginning with one of the first"


def import_study(
    where: Annotated[
        str,
        typer.Argument(
            metavar="WHERE", help="optuna: a database URL or file; autoresearch-rl: a directory"
        ),
    ],
    source: Annotated[Source, typer.Option("--from", help="whose study it is")],
    study: Annotated[
        str | None,
        typer.Option("--study", metavar="NAME", help="which one, where there are several"),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="what it is to be called here")
    ] = None,
    study_file: Annotated[
        Path | None,
        typer.Option(
            "--study-file", metavar="FILE", help="also write a study file with the same space"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object, and nothing else")
    ] = False,
) -> int:
    """Take over another tool's study as read-only history, whole or not at all.

    Its scores are what that tool reported: no evaluator of yours gave them, so none is ever
    compared with a score of ARL's, replayed or promoted. Importing the same again says so.
    """
    _check_name(name)
    if study_file is not None and os.path.lexists(study_file):
        raise Conflict(f"--study-file: {plain(str(study_file))} exists: name a new file")
    progress = _Progress(quiet=as_json)
    with _taken(source, where, study, name, progress.read) as taken:
        with service_opened(create=True) as service:
            done = taken.record(service.ledger, actor=actor(), progress=progress.written)
            if done.is_new:
                remember_heads(service)
        progress.end()
        if study_file is not None:
            _write_study_file(study_file, taken)
        document = _document(taken, done, study_file)
    if as_json:
        print_json(document)
    else:
        _tell(document)
    return OK


def _check_name(name: str | None) -> None:
    from controller.interchange.taking_in import fitting_name

    if name is not None and fitting_name(name) != name:
        raise InvalidInput(f"--name: {plain(name)!r}: a study's name has {_NAME_RULE}")


def _taken(
    source: Source,
    where: str,
    study: str | None,
    name: str | None,
    progress: Callable[[int], None],
) -> "AbstractContextManager[Taken]":
    if source is Source.AUTORESEARCH_RL:
        from controller.interchange.autoresearch_import import taken_from_autoresearch

        return taken_from_autoresearch(where, study=study, name=name, progress=progress)
    try:
        from controller.interchange.optuna_import import taken_from_optuna
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "--from optuna needs Optuna, which is not installed: pip install 'arl[optuna]'"
        ) from error
    return taken_from_optuna(where, study=study, name=name, progress=progress)


def _write_study_file(path: Path, taken: "Taken") -> None:
    from controller.interchange.taking_in import study_file

    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(study_file(taken))
    except FileExistsError as error:
        raise Conflict(f"--study-file: {plain(str(path))} exists: name a new file") from error
    except FileNotFoundError as error:
        raise InvalidInput(f"--study-file: {plain(str(path.parent))} does not exist") from error
    except OSError as error:
        raise DiskFull(f"--study-file: {plain(str(path))} cannot be written: {error}") from error


def _document(taken: "Taken", done: "ImportedStudy", study_file: Path | None) -> dict[str, Json]:
    best = taken.best
    metric = taken.described.metrics[0]
    return {
        "study": done.study_id,
        "name": taken.study.spec.name,
        "imported": done.is_new,
        "from": taken.described.source,
        "called_there": taken.described.name,
        "trials": done.trials,
        "states": dict(taken.spool.states),
        "best": None
        if best is None
        else {"number": best.number, "value": best.values[metric], "params": dict(best.params)},
        "parameters": len(taken.space.parameters),
        "notes": list(taken.notes),
        "study_file": None if study_file is None else str(study_file),
    }


def _tell(document: dict[str, Json]) -> None:
    study, trials = document["study"], document["trials"]
    called = plain(str(document["called_there"]))
    if not document["imported"]:
        print(f"{called} was imported before, with the same {trials} trials, as study {study}")
    else:
        print(f"imported {called}: {trials} trials, as study {study}")
        print(f"  it is history: `arl show {study}`, `arl export {study}`; nothing runs it")
    notes = document["notes"]
    for note in notes if isinstance(notes, list) else ():
        print(f"  note: {plain(str(note))}")
    if document["study_file"] is not None:
        print(f"wrote {plain(str(document['study_file']))}: fill in program and evaluator")


class _Progress:
    """One line that is written over, on a terminal; nothing elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._shows = not quiet and sys.stderr.isatty()

    def read(self, count: int) -> None:
        self._line(f"read {count} trials")

    def written(self, count: int) -> None:
        self._line(f"recorded {count} trials")

    def end(self) -> None:
        self._line("")

    def _line(self, text: str) -> None:
        if self._shows:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
