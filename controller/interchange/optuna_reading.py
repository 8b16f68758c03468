"""Reads a study of an Optuna storage, a page of trials at a time."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from optuna.distributions import CategoricalDistribution
from sqlalchemy import Connection, Row, Select, Table, select

from controller.interchange.observed_space import Parameter
from controller.interchange.optuna_params import (
    choice_index,
    choice_value,
    number_value,
    read_distribution,
    wider,
)
from controller.interchange.optuna_tables import METRIC_NAMES, restored
from controller.interchange.spool import MOST_TEXT, is_storable
from controller.steps.importing import ReportedTrial
from ledger.errors import InvalidInput, NotFound
from ledger.records import IntermediateValue, ParamValue
from ledger.states import TrialState

_Tables: TypeAlias = Mapping[str, Table]
_Rows: TypeAlias = Mapping[int, list[Row[Any]]]

_PAGE: Final = 500
_SHOWN: Final = 10
_NAME_CHARS: Final = 200
"""A metric's name in the ledger."""

STATES: Final[Mapping[str, TrialState]] = {
    "COMPLETE": TrialState.COMPLETE,
    "PRUNED": TrialState.PRUNED,
    "FAIL": TrialState.FAILED,
    # Whoever ran them may still: their end is not known here.
    "RUNNING": TrialState.CANCELLED,
    "WAITING": TrialState.CANCELLED,
}
_DETAILS: Final[Mapping[str, str]] = {
    "PRUNED": "pruned in Optuna",
    "FAIL": "failed in Optuna",
    "RUNNING": "was running in Optuna when it was imported",
    "WAITING": "was waiting in Optuna when it was imported",
}


@dataclass
class OptunaStudy:
    """One study of a storage; what its trials declare is known once they were all read."""

    study_id: int
    name: str
    maximizes: tuple[bool, ...]
    metrics: tuple[str, ...]
    named: bool
    """Whether the metrics' names are Optuna's own."""
    user_attrs: Mapping[str, Any]
    declared: dict[str, str] = field(default_factory=dict)
    """Each parameter's first distribution, as Optuna's JSON."""
    parameters: dict[str, Parameter] = field(default_factory=dict)
    dropped: int = 0
    """Trials whose user attributes were too long to take over."""

    def origin(self) -> str:
        """What a storage written from the ledger gets back."""
        return json.dumps(
            {
                "tool": "optuna",
                "metric_names": list(self.metrics) if self.named else None,
                "distributions": self.declared,
                "user_attrs": self.user_attrs,
            }
        )


def choose_study(connection: Connection, tables: _Tables, name: str | None) -> OptunaStudy:
    """The study called `name`, or the only one.

    Raises:
        NotFound: there is none of that name.
        InvalidInput: there are several, or its rows contradict each other.
    """
    studies = tables["studies"]
    query = select(studies.c.study_id, studies.c.study_name).order_by(studies.c.study_id)
    if name is not None:
        query = query.where(studies.c.study_name == name)
    found = connection.execute(query.limit(_SHOWN + 1)).all()
    if not found:
        called = "" if name is None else f" called {name!a}"
        raise NotFound(f"optuna: the storage has no study{called}")
    if len(found) > 1:
        names = ", ".join(ascii(row.study_name) for row in found[:_SHOWN])
        raise InvalidInput(f"--study: the storage has several ({names}): say which")
    study_id, study_name = found[0]
    try:
        return _study(connection, tables, study_id, study_name)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"optuna: study {study_name!a} is damaged: {error}") from error


def _study(connection: Connection, tables: _Tables, study_id: int, name: str) -> OptunaStudy:
    directions = tables["study_directions"]
    query = select(directions.c.objective, directions.c.direction)
    query = query.where(directions.c.study_id == study_id).order_by(directions.c.objective)
    rows = connection.execute(query).all()
    if [row.objective for row in rows] != list(range(len(rows))) or not rows:
        raise ValueError("its objectives are not numbered from 0")
    names = _attributes(connection, tables["study_system_attributes"], study_id).get(METRIC_NAMES)
    metrics = _metric_names(names, len(rows))
    defaults = ["value"] if len(rows) == 1 else [f"value_{i}" for i in range(len(rows))]
    return OptunaStudy(
        study_id=study_id,
        name=name,
        maximizes=tuple(row.direction == "MAXIMIZE" for row in rows),
        metrics=tuple(metrics or defaults),
        named=metrics is not None,
        user_attrs=_attributes(connection, tables["study_user_attributes"], study_id),
    )


def _metric_names(names: object, count: int) -> list[str] | None:
    """Optuna's own, where a study file can have them: different, not empty, not too long."""
    if not isinstance(names, list) or len(names) != count:
        return None
    texts = [n for n in names if isinstance(n, str) and 0 < len(n) <= _NAME_CHARS]
    storable = len(texts) == count and all(is_storable(n) and "\0" not in n for n in texts)
    return texts if storable and len(set(texts)) == count else None


def _attributes(connection: Connection, table: Table, study_id: int) -> dict[str, Any]:
    query = select(table.c.key, table.c.value_json).where(table.c.study_id == study_id)
    return {row.key: json.loads(row.value_json) for row in connection.execute(query)}


def read_trials(
    connection: Connection, tables: _Tables, study: OptunaStudy
) -> Iterator[ReportedTrial]:
    """Every trial by number. Raises InvalidInput, naming the trial, for one that is damaged."""
    trials = tables["trials"]
    last = -1
    while True:
        query = select(trials).where(trials.c.study_id == study.study_id, trials.c.trial_id > last)
        page = _fetched(connection, query.order_by(trials.c.trial_id).limit(_PAGE))
        if not page:
            return
        last = page[-1].trial_id
        ids = [row.trial_id for row in page]
        parts = {
            name: _children(connection, tables[f"trial_{name}"], ids)
            for name in ("params", "values", "intermediate_values", "user_attributes")
        }
        for row in page:
            try:
                yield _trial(
                    study, row, {n: rows.get(row.trial_id, []) for n, rows in parts.items()}
                )
            except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
                what = f"{type(error).__name__}: {ascii(str(error))[:200]}"
                raise InvalidInput(f"optuna: trial {row.number} is damaged: {what}") from error


def _children(connection: Connection, table: Table, ids: Sequence[int]) -> _Rows:
    found: dict[int, list[Row[Any]]] = {}
    key = next(iter(table.primary_key.columns))
    query = select(table).where(table.c.trial_id.in_(ids)).order_by(key)
    for row in _fetched(connection, query):
        found.setdefault(row.trial_id, []).append(row)
    return found


def _fetched(connection: Connection, query: Select[Any]) -> list[Row[Any]]:
    try:
        return list(connection.execute(query).all())
    except (ValueError, TypeError) as error:  # SQLite keeps anything in any column
        raise InvalidInput(
            f"optuna: the storage is damaged: a column holds what is not of its type: {error}"
        ) from error


def _trial(
    study: OptunaStudy, row: Row[Any], parts: Mapping[str, list[Row[Any]]]
) -> ReportedTrial:
    params, notes = _params(study, parts["params"])
    values = {r.objective: restored(r.value, r.value_type) for r in parts["values"]}
    if values and sorted(values) != list(range(len(study.metrics))):
        raise ValueError(f"it has values {sorted(values)} for {len(study.metrics)} objectives")
    ordered = [values[i] for i in sorted(values)]
    if row.state == "COMPLETE" and not ordered:
        raise ValueError("it is complete and has no value")
    attrs = {r.key: json.loads(r.value_json) for r in parts["user_attributes"]}
    if len(json.dumps(attrs)) > MOST_TEXT:
        study.dropped += 1
        attrs = {}
    origin = {"state": row.state, "values": ordered, "user_attrs": attrs, **notes}
    return ReportedTrial(
        number=row.number,
        state=STATES[row.state],
        detail=_DETAILS.get(row.state, ""),
        params=params,
        values=dict(zip(study.metrics, ordered, strict=False)),
        curve=_curve(study, parts["intermediate_values"]),
        started_at=_seconds(row.datetime_start),
        ended_at=_seconds(row.datetime_complete),
        origin=json.dumps(origin),
    )


def _curve(study: OptunaStudy, rows: list[Row[Any]]) -> tuple[IntermediateValue, ...]:
    points = [(r.step, restored(r.intermediate_value, r.intermediate_value_type)) for r in rows]
    return tuple(
        IntermediateValue(step=step, metric=study.metrics[0], value=value)
        for step, value in sorted(points)
    )


def _seconds(moment: datetime | None) -> float | None:
    """Optuna stores UTC without saying so."""
    return None if moment is None else moment.replace(tzinfo=UTC).timestamp()


def _params(
    study: OptunaStudy, rows: list[Row[Any]]
) -> tuple[dict[str, ParamValue], dict[str, Any]]:
    """The values as ARL has them, and what it takes to give back Optuna's own."""
    params: dict[str, ParamValue] = {}
    changed: dict[str, str] = {}
    indices: dict[str, int] = {}
    for row in rows:
        name, text = row.param_name, row.distribution_json
        distribution = read_distribution(text)
        if study.declared.setdefault(name, text) != text:
            changed[name] = text
        study.parameters[name] = wider(study.parameters.get(name), distribution)
        if isinstance(distribution, CategoricalDistribution):
            indices[name] = choice_index(distribution, row.param_value)
            params[name] = choice_value(distribution.choices[indices[name]])
        else:
            params[name] = number_value(distribution, row.param_value)
    return params, {"distributions": changed, "choices": indices}
