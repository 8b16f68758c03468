"""`arl export` into what another tool opens: an Optuna storage, MLflow, a Hugging Face folder."""

import importlib
import sys
from pathlib import Path
from typing import Final

from controller.cli.naming import find_candidate, find_promoted, find_study, find_trial_id
from controller.cli.opening import ledger_opened, service_opened
from controller.cli.output import OK, print_json
from controller.cli.source import server_named
from controller.cli.text import plain
from controller.settings import set_variable
from ledger.database import ReadSession
from ledger.errors import InvalidInput
from ledger.records import Json

_OUTPUTS: Final = {
    "optuna": "-o sqlite:///FILE.db, or another storage's URL",
    "mlflow": "-o DIR, or a tracking URI",
    "huggingface": "-o DIR",
}
_EXTRAS: Final = {"optuna": "optuna", "mlflow": "mlflow"}


def export_elsewhere(
    subject: str, form: str, output: str | None, name: str | None, *, as_json: bool
) -> int:
    """Write `subject` in the form of another tool, whole or not at all."""
    if server_named():
        raise InvalidInput(
            f"--format {form} needs the ledger itself: run it where ARL_HOME is, without --server"
        )
    if output is None:
        raise InvalidInput(f"--format {form}: say where to with {_OUTPUTS[form]}")
    if form == "huggingface":
        if name is not None:
            raise InvalidInput("--name: a model folder has no name but its own; leave it out")
        document = _model_folder(subject, output)
    else:
        document = _trials(subject, form, output, name, quiet=as_json)
    if as_json:
        print_json(document)
    else:
        for line in _lines(document):
            print(line)
    return OK


def _trials(
    subject: str, form: str, output: str, name: str | None, *, quiet: bool
) -> dict[str, Json]:
    def progress(count: int) -> None:
        if not quiet and sys.stderr.isatty():
            print(f"\r\x1b[K{count} trials", end="", file=sys.stderr, flush=True)

    if form == "optuna":
        _need(form, "optuna")
        from controller.interchange.optuna_writing import export_optuna

        with ledger_opened() as ledger, ledger.read() as session:
            found = find_study(session, subject)
            count = export_optuna(session, found, output, name=name, progress=progress)
    else:
        set_variable("MLFLOW_DISABLE_TELEMETRY", "true", keep=True)
        _need(form, "mlflow")
        from controller.interchange.mlflow_writing import export_mlflow

        with service_opened() as service, service.ledger.read() as session:
            found = find_study(session, subject)
            count = export_mlflow(
                session, service.store, found, output, name=name, progress=progress
            )
    progress_was_shown = not quiet and sys.stderr.isatty()
    if progress_was_shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return {
        "study": found.id,
        "name": found.name,
        "trials": count,
        "file": output,
        "format": form,
    }


def _need(form: str, module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"--format {form} needs {error.name}, which is not installed: "
            f"pip install 'arl[{_EXTRAS[form]}]'"
        ) from error


def _model_folder(subject: str, output: str) -> dict[str, Json]:
    from controller.interchange.model_folder import export_model_folder
    from controller.interchange.promoted_model import model_of

    with service_opened() as service:
        with service.ledger.read() as session:
            model = model_of(session, *_named(session, subject))
        return export_model_folder(service.store, model, Path(output))


def _named(session: ReadSession, subject: str) -> tuple[str, str | None]:
    """The candidate, and the one trial where one was named. Raises NotFound, Conflict."""
    promoted = find_promoted(session, subject)
    if promoted is not None:
        return promoted.candidate_id, None
    candidate = find_candidate(session, subject)
    if subject == candidate.id:
        return candidate.id, None
    return candidate.id, find_trial_id(session, subject)


def _lines(document: dict[str, Json]) -> list[str]:
    where = plain(str(document["file"]))
    if document["format"] == "huggingface":
        return [
            f"wrote {where}: the {document['kind']} of candidate {document['candidate']} "
            f"(trial {document['trial']}); its license is for you to state in README.md"
        ]
    return [f"{document['trials']} trials of {plain(str(document['name']))} in {where}"]
