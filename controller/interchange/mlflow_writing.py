"""Writes a study into MLflow: an experiment, a run for each trial, the promoted model."""

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mlflow.entities import LoggedModelOutput, Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from controller.drafts import new_directory
from controller.interchange.promoted_model import StoredModel, promoted_by
from controller.interchange.told_trials import ToldTrial, told_trials
from ledger.artifacts import ArtifactStore
from ledger.database import ReadSession
from ledger.errors import Conflict, InvalidInput
from ledger.import_reads import find_study_import
from ledger.reads import read_values
from ledger.records import Study, TrialKind
from ledger.states import TrialState

_STATUSES: Final[Mapping[TrialState, str]] = {
    TrialState.COMPLETE: "FINISHED",
    TrialState.PRUNED: "KILLED",
    TrialState.FAILED: "FAILED",
    TrialState.CANCELLED: "KILLED",
}
"""Others are under way: RUNNING."""
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.\- ]")
_KEY_CHARS: Final = 200
_TEXT_CHARS: Final = 5_000
_METRICS: Final = 1_000
_PARAMS: Final = 100
"""At most so many in one call."""


def export_mlflow(
    session: ReadSession,
    store: ArtifactStore,
    study: Study,
    where: str,
    *,
    name: str | None,
    progress: Callable[[int], None],
) -> int:
    """Write every trial into a new directory, or to the tracking server of a URI; how many.

    Raises:
        Conflict: the directory has something in it, or MLflow an experiment of that name.
        InvalidInput: the server does not take it. Nothing of it is left.
    """
    for logger in ("mlflow", "alembic"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    called = name or study.name
    try:
        with _opened(where) as place:
            return _Experiment(session, store, study, place).write(called, progress)
    except MlflowException as error:
        raise InvalidInput(f"mlflow: {where}: {' '.join(str(error).split())[:300]}") from error


class _Place:
    """A tracking store, and where files of its artifacts' addresses are put."""

    def __init__(self, uri: str, final: Path | None = None, draft: Path | None = None) -> None:
        self.client = MlflowClient(tracking_uri=uri)
        self._final = final
        self._draft = draft

    def artifact_location(self) -> str | None:
        """None: what the server decides."""
        return None if self._final is None else (self._final / "artifacts").as_uri()

    def put_model(self, store: ArtifactStore, model: StoredModel, model_id: str) -> None:
        """The files of a logged model that is there already."""
        if self._final is not None and self._draft is not None:
            address = self.client.get_logged_model(model_id).artifact_location
            inside = Path(unquote(urlsplit(address).path)).relative_to(self._final)
            store.copy_tree(model.digest, self._draft / inside)
            return
        with tempfile.TemporaryDirectory(prefix="arl-mlflow-") as folder:
            store.copy_tree(model.digest, Path(folder))
            self.client.log_model_artifacts(model_id, folder)


@contextmanager
def _opened(where: str) -> Iterator[_Place]:
    if "://" in where:
        yield _Place(where)
        return
    directory = Path(where).absolute()
    with new_directory(directory) as draft:
        yield _Place(f"sqlite:///{draft / 'mlflow.db'}", directory, draft)


class _Experiment:
    def __init__(
        self, session: ReadSession, store: ArtifactStore, study: Study, place: _Place
    ) -> None:
        self._session = session
        self._store = store
        self._study = study
        self._place = place
        self._client = place.client
        self._promoted = promoted_by(session, study.id)

    def write(self, name: str, progress: Callable[[int], None]) -> int:
        if self._client.get_experiment_by_name(name) is not None:
            raise Conflict(f"mlflow: there is an experiment called {name!a}: say --name")
        location = self._place.artifact_location()
        experiment = self._client.create_experiment(name, location, self._tags())
        count = 0
        try:
            for told in told_trials(self._session, self._study.id, kinds=tuple(TrialKind)):
                self._write_run(experiment, told)
                count += 1
                if count % 10 == 0:
                    progress(count)
        except BaseException:
            self._client.delete_experiment(experiment)
            raise
        return count

    def _tags(self) -> dict[str, str]:
        study = self._study
        imported = find_study_import(self._session, study.id)
        tags = {
            "arl.study": study.id,
            "arl.name": study.name,
            "arl.state": str(study.state),
            "arl.comparison": study.comparison,
            "arl.evaluator_bundle": study.bundle_digest or "reported",
        }
        return tags if imported is None else {**tags, "arl.imported_from": imported.source}

    def _write_run(self, experiment: str, told: ToldTrial) -> None:
        trial = told.trial
        begun = _milliseconds(trial.started_at or trial.created_at)
        names = _Names()
        params = [
            Param(names.fitting("param", key), _text(value))
            for key, value in told.candidate.params.items()
        ]
        metrics = list(self._metrics(told, names, begun))
        tags = {f"arl.{key}": _text(value) for key, value in told.facts().items()}
        tags |= {f"arl.name.{short}": _text(full) for short, full in names.changed.items()}
        run = self._client.create_run(
            experiment, start_time=begun, tags=tags, run_name=f"{trial.kind}-{trial.number}"
        )
        run_id = run.info.run_id
        for start in range(0, len(params), _PARAMS):
            self._client.log_batch(run_id, params=params[start : start + _PARAMS])
        for start in range(0, len(metrics), _METRICS):
            self._client.log_batch(run_id, metrics=metrics[start : start + _METRICS])
        if self._promoted is not None and self._promoted.trial.id == trial.id:
            self._write_model(experiment, run_id, self._promoted)
        if trial.state in _STATUSES:
            ended = _milliseconds(trial.ended_at or trial.created_at)
            self._client.set_terminated(run_id, _STATUSES[trial.state], max(begun, ended))

    def _metrics(self, told: ToldTrial, names: "_Names", begun: int) -> Iterator[Metric]:
        """Scores as `score.SPLIT.METRIC`, then what was reported, step by step."""
        for evaluation in told.evaluations:
            for metric, value in evaluation.scores.items():
                key = names.fitting("metric", f"score.{evaluation.split}.{metric}")
                yield Metric(key, value, begun, 0)
        for said in read_values(self._session, told.trial.id):
            key = names.fitting("metric", said.metric)
            yield Metric(key, said.value, begun, said.step)

    def _write_model(self, experiment: str, run_id: str, model: StoredModel) -> None:
        won = model.incumbent
        tags = {"arl.candidate": model.candidate.id, "arl.digest": model.digest}
        if won is not None:
            tags |= {"arl.promoted_as": f"{won.model}:{won.seq}"}
        called = self._study.name if won is None else won.model
        logged = self._client.create_logged_model(
            experiment, name=called, source_run_id=run_id, tags=tags
        )
        self._place.put_model(self._store, model, logged.model_id)
        self._client.finalize_logged_model(logged.model_id, "READY")
        self._client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])


class _Names:
    """MLflow's names have few characters; two that would become one stay two."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._taken: set[tuple[str, str]] = set()
        self.changed: dict[str, str] = {}
        """What was written in place of which name."""

    def fitting(self, kind: str, name: str) -> str:
        known = self._given.get((kind, name))
        if known is not None:
            return known
        plain = _NOT_IN_NAMES.sub("_", name).strip(" .")[:_KEY_CHARS] or "_"
        short, count = plain, 1
        while (kind, short) in self._taken:
            count += 1
            short = f"{plain}.{count}"
        self._given[(kind, name)] = short
        self._taken.add((kind, short))
        if short != name:
            self.changed[f"{kind}.{short}"] = name
        return short


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _text(value: object) -> str:
    text = str(value).replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if len(text) <= _TEXT_CHARS else f"{text[: _TEXT_CHARS - 1]}…"
