"""`arl export`: a study's trials for other tools."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from controller.cli.naming import find_study
from controller.cli.opening import ledger_opened
from controller.cli.output import OK, print_json
from controller.cli.source import server_named
from controller.cli.text import plain
from ledger.database import ReadSession
from ledger.errors import DiskFull, InvalidInput
from ledger.export import ExportFormat, export_trials

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="id, unique name, beginning of an id, or `last`")
]
Form = Annotated[ExportFormat, typer.Option("--format", help="csv, json or parquet")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="write here instead of standard output")
]
AsJson = Annotated[bool, typer.Option("--json", help="say in JSON what was written; needs -o")]


def export(
    study: StudyName,
    form: Form = ExportFormat.CSV,
    output: Output = None,
    as_json: AsJson = False,
) -> int:
    """Write every trial of a study: parameters, scores by split, latest reported values.

    Numbers that are not finite are empty (or null) and named in the column `non_finite`.
    """
    if output is None and as_json:
        raise InvalidInput("--json: say where to with -o; the export itself goes to that file")
    if output is None and form is ExportFormat.PARQUET and sys.stdout.isatty():
        raise InvalidInput("--format parquet: it is binary; write -o FILE, or pipe it")
    if server_named():
        from controller.cli.server_verbs import export as export_there

        return export_there(study, form, output, as_json=as_json)
    with ledger_opened() as ledger, ledger.read() as session:
        found = find_study(session, study)
        if output is None:
            export_trials(session, found.id, form, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return OK
        count = _write_beside(session, found.id, form, output)
    if as_json:
        print_json({"study": found.id, "trials": count, "file": str(output), "format": str(form)})
    else:
        print(f"{count} trials of {plain(found.name)} in {plain(str(output))}")
    return OK


def _write_beside(session: ReadSession, study_id: str, form: ExportFormat, output: Path) -> int:
    """Whole or not at all: written beside, then renamed."""
    try:
        with tempfile.NamedTemporaryFile(
            dir=output.parent, prefix=f".{output.name}.", delete=False
        ) as file:
            try:
                count = export_trials(session, study_id, form, cast("BinaryIO", file))
                os.fchmod(file.fileno(), 0o644)
            except BaseException:
                os.unlink(file.name)
                raise
        os.replace(file.name, output)
    except FileNotFoundError as error:
        raise InvalidInput(f"--output: {plain(str(output.parent))} does not exist") from error
    except OSError as error:
        raise DiskFull(f"--output: {plain(str(output))} cannot be written: {error}") from error
    return count
