"""`arl export`: a study's trials, or a candidate's model, for other tools."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.naming import find_study
from controller.cli.opening import ledger_opened
from controller.cli.output import OK, print_json
from controller.cli.source import server_named
from controller.cli.text import plain
from controller.drafts import new_file
from ledger.database import ReadSession
from ledger.errors import InvalidInput
from ledger.export import ExportFormat, export_trials


class Form(StrEnum):
    """A file of trials, or what another tool opens."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    OPTUNA = "optuna"
    MLFLOW = "mlflow"
    HUGGINGFACE = "huggingface"


Subject = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="id, unique name, beginning of an id, or `last`; huggingface: a candidate's id, "
        "STUDY/NUMBER, or a promoted model's NAME or NAME:NUMBER",
    ),
]
FormOption = Annotated[Form, typer.Option("--format", help="in what form")]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="a file instead of standard output; optuna: a database URL or file; mlflow: a new "
        "directory or a tracking URI; huggingface: a new directory",
    ),
]
Name = Annotated[
    str | None, typer.Option("--name", help="optuna, mlflow: what to call the study there")
]
AsJson = Annotated[bool, typer.Option("--json", help="say in JSON what was written; needs -o")]


def export(
    study: Subject,
    form: FormOption = Form.CSV,
    output: Output = None,
    name: Name = None,
    as_json: AsJson = False,
) -> int:
    """Write a study's trials (csv, json, parquet; optuna, mlflow), or a candidate's model as a
    Hugging Face folder.

    In files numbers that are not finite are empty (or null) and named in the column `non_finite`.
    """
    if form in (Form.OPTUNA, Form.MLFLOW, Form.HUGGINGFACE):
        from controller.cli.exporting_elsewhere import export_elsewhere

        return export_elsewhere(study, str(form), output, name, as_json=as_json)
    if name is not None:
        raise InvalidInput(f"--name: a {form} file has no name of a study; leave it out")
    return _export_file(
        study, ExportFormat(form), None if output is None else Path(output), as_json=as_json
    )


def _export_file(study: str, form: ExportFormat, output: Path | None, *, as_json: bool) -> int:
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
    with new_file(output) as draft, draft.open("wb") as file:
        return export_trials(session, study_id, form, file)
