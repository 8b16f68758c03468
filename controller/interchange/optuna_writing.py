"""Writes a study into an Optuna storage: whole in one transaction, or not at all."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from optuna.distributions import distribution_to_json
from sqlalchemy import URL, Connection, Table, insert, select

from controller.interchange.optuna_params import index_of, optuna_distribution
from controller.interchange.optuna_tables import (
    METRIC_NAMES,
    opened_for_writing,
    shown,
    storage_url,
    stored,
)
from controller.interchange.told_trials import (
    PREFIX,
    ToldTrial,
    curve,
    curve_metric,
    read_spec,
    told_trials,
)
from controller.spec.space import search_space
from controller.spec.study import StudySpec
from ledger import summaries
from ledger.database import ReadSession
from ledger.errors import Conflict, DiskFull, InvalidInput
from ledger.import_reads import find_study_import
from ledger.records import Direction, ParamValue, Study
from ledger.states import TrialState
from proposers.search_space import Categorical

_Tables: TypeAlias = Mapping[str, Table]
_Rows: TypeAlias = dict[str, list[dict[str, object]]]
_Progress: TypeAlias = Callable[[int], None]

_BATCH: Final = 500
_NAME_CHARS: Final = 512
_STATES: Final[Mapping[TrialState, str]] = {
    TrialState.COMPLETE: "COMPLETE",
    TrialState.PRUNED: "PRUNED",
    TrialState.FAILED: "FAIL",
    TrialState.CANCELLED: "FAIL",
}
"""Others are under way: RUNNING. Optuna would run a WAITING one itself."""


def export_optuna(
    session: ReadSession, study: Study, where: str, *, name: str | None, progress: _Progress
) -> int:
    """Write the study's search trials into a storage, which is made where there is none; how many.

    Raises:
        Conflict: the storage has a study of that name.
        InvalidInput: it is no storage, or cannot be written.
    """
    imported = find_study_import(session, study.id)
    origin = {} if imported is None else json.loads(imported.origin)
    called = name or (study.name if imported is None else imported.name)
    if not 0 < len(called) <= _NAME_CHARS:
        raise InvalidInput(f"--name: {ascii(called)[:60]}: a study's name has 1 to 512 characters")
    url = storage_url(where)
    with _written_beside(url) as draft, opened_for_writing(draft) as (storage, tables):
        with storage.engine.begin() as connection:
            writer = _Writer(session, study, origin if origin.get("tool") == "optuna" else {})
            study_id = writer.write_study(connection, tables, called, shown(url))
            return writer.write_trials(connection, tables, study_id, progress)


@contextmanager
def _written_beside(url: URL) -> Iterator[URL]:
    """A new SQLite file gets its name when it is whole; other storages have transactions."""
    path = Path(url.database or "")
    if url.get_backend_name() != "sqlite" or path.exists():
        yield url
        return
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            draft = Path(folder) / path.name
            yield URL.create("sqlite", database=str(draft))
            os.replace(draft, path)
    except FileNotFoundError as error:
        raise InvalidInput(f"--output: {path.parent} does not exist") from error
    except OSError as error:
        raise DiskFull(f"--output: {path} cannot be written: {error}") from error


class _Writer:
    def __init__(self, session: ReadSession, study: Study, origin: Mapping[str, Any]) -> None:
        self._session = session
        self._study = study
        self._spec: StudySpec = read_spec(study.spec)
        self._origin = origin
        """Of a study that came from Optuna: what it declared there."""
        self._space = search_space(self._spec.space)
        self._declared = {n: optuna_distribution(d) for n, d in self._space.items()}
        self._objectives = [self._spec.objective, *self._spec.objectives]
        self._metric = curve_metric(session, study.id, self._spec)

    def write_study(self, connection: Connection, tables: _Tables, name: str, where: str) -> int:
        studies = tables["studies"]
        taken = select(studies.c.study_id).where(studies.c.study_name == name)
        if connection.execute(taken).first() is not None:
            raise Conflict(
                f"optuna: {where} has a study called {name!a}: choose another with --name"
            )
        made = connection.execute(insert(studies).values(study_name=name))
        study_id = int(made.inserted_primary_key[0]) if made.inserted_primary_key else 0
        directions = [
            {
                "study_id": study_id,
                "objective": number,
                "direction": "MAXIMIZE"
                if objective.direction is Direction.MAXIMIZE
                else "MINIMIZE",
            }
            for number, objective in enumerate(self._objectives)
        ]
        connection.execute(insert(tables["study_directions"]), directions)
        attributes = _attribute_rows("study_id", study_id, self._study_attributes())
        connection.execute(insert(tables["study_user_attributes"]), attributes)
        names = [objective.metric for objective in self._objectives]
        if not self._origin or self._origin["metric_names"]:
            rows = _attribute_rows("study_id", study_id, {METRIC_NAMES: names})
            connection.execute(insert(tables["study_system_attributes"]), rows)
        return study_id

    def _study_attributes(self) -> dict[str, object]:
        study = self._study
        own: dict[str, object] = {
            "study": study.id,
            "name": study.name,
            "state": str(study.state),
            "comparison": study.comparison,
            "evaluator_bundle": study.bundle_digest,
            "baseline": summaries.baseline_values(self._session, study.id),
            "intermediate_values": self._metric,
        }
        attributes = {f"{PREFIX}{name}": value for name, value in own.items()}
        return {**self._origin.get("user_attrs", {}), **attributes}

    def write_trials(
        self, connection: Connection, tables: _Tables, study_id: int, progress: _Progress
    ) -> int:
        count = 0
        rows: _Rows = {}
        for told in told_trials(self._session, self._study.id):
            state = self._state(told)
            row = {
                "study_id": study_id,
                "number": count,
                "state": state,
                "datetime_start": _moment(told.trial.started_at),
                "datetime_complete": _moment(told.trial.ended_at),
            }
            made = connection.execute(insert(tables["trials"]).values(row))
            trial_id = int(made.inserted_primary_key[0]) if made.inserted_primary_key else 0
            self._add_parts(rows, told, trial_id, state)
            count += 1
            if count % _BATCH == 0:
                _flush(connection, tables, rows)
                progress(count)
        _flush(connection, tables, rows)
        return count

    def _state(self, told: ToldTrial) -> str:
        if told.origin.get("state"):
            return str(told.origin["state"])
        state = _STATES.get(told.trial.state, "RUNNING")
        # What was scored only in part is no result to Optuna.
        return "FAIL" if state == "COMPLETE" and self._values(told) is None else state

    def _values(self, told: ToldTrial) -> list[float] | None:
        """One for each objective; None where one is missing."""
        if "values" in told.origin:
            return [float(value) for value in told.origin["values"]] or None
        if len(self._objectives) == 1:
            return None if told.trial.value is None else [told.trial.value]
        found = [told.scores.get(objective.metric) for objective in self._objectives]
        known = [value for value in found if value is not None]
        return known if len(known) == len(found) else None

    def _add_parts(self, rows: _Rows, told: ToldTrial, trial_id: int, state: str) -> None:
        attributes: dict[str, object] = {
            f"{PREFIX}{name}": value for name, value in told.facts().items()
        }
        attributes.update(self._add_params(rows, told, trial_id))
        scores = {f"{e.split}.{m}": v for e in told.evaluations for m, v in e.scores.items()}
        if scores:
            attributes[f"{PREFIX}scores"] = scores
        attributes = {**told.origin.get("user_attrs", {}), **attributes}
        rows.setdefault("trial_user_attributes", []).extend(
            _attribute_rows("trial_id", trial_id, attributes)
        )
        if state == "COMPLETE" or told.origin:
            for number, value in enumerate(self._values(told) or ()):
                column, kind = stored(value)
                row = {"objective": number, "value": column, "value_type": kind}
                rows.setdefault("trial_values", []).append({"trial_id": trial_id, **row})
        points = curve(self._session, told.trial.id, self._metric)
        for step, value in {v.step: v.value for v in points}.items():
            column, kind = stored(value)
            rows.setdefault("trial_intermediate_values", []).append(
                {
                    "trial_id": trial_id,
                    "step": step,
                    "intermediate_value": column,
                    "intermediate_value_type": kind,
                }
            )

    def _add_params(self, rows: _Rows, told: ToldTrial, trial_id: int) -> dict[str, object]:
        """Returns attributes with what Optuna has no distribution for."""
        outside: dict[str, object] = {}
        params = dict(told.candidate.params)
        if self._origin:  # the ledger keeps names in order, Optuna the order of asking
            params = {n: params[n] for n in self._origin["distributions"] if n in params}
        for name, value in params.items():
            known = self._distribution(told, name, value)
            if known is None:
                outside[name] = value
                continue
            text, number = known
            rows.setdefault("trial_params", []).append(
                {
                    "trial_id": trial_id,
                    "param_name": name,
                    "param_value": number,
                    "distribution_json": text,
                }
            )
        return {f"{PREFIX}params": outside} if outside else {}

    def _distribution(
        self, told: ToldTrial, name: str, value: ParamValue
    ) -> tuple[str, float] | None:
        """Optuna's text of it, and the value as Optuna's number."""
        if self._origin:
            text = told.origin["distributions"].get(name, self._origin["distributions"][name])
            index = told.origin["choices"].get(name)
            return text, float(value if index is None else index)
        space = self._space.get(name)
        if space is None or not space.contains(value):
            return None
        text = distribution_to_json(self._declared[name])
        return text, index_of(space, value) if isinstance(space, Categorical) else float(value)


def _attribute_rows(
    key: str, owner: int, attributes: Mapping[str, object]
) -> list[dict[str, object]]:
    return [
        {key: owner, "key": name, "value_json": json.dumps(value)}
        for name, value in attributes.items()
    ]


def _flush(connection: Connection, tables: _Tables, rows: _Rows) -> None:
    for name, waiting in rows.items():
        if waiting:
            connection.execute(insert(tables[name]), waiting)
            waiting.clear()


def _moment(seconds: float | None) -> datetime | None:
    """Optuna stores UTC without saying so."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
