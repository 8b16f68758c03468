"""A study's trials as csv, json or parquet: parameters, scores and latest reported metrics.

A number that is not finite is written as null, and named in the trial's `non_finite`.
"""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import BinaryIO, Final, TypeAlias

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.errors import InvalidInput
from ledger.reads import ListedTrial, TrialFilter, get_study, list_trials, load_evaluations
from ledger.records import Evaluation
from ledger.rows import LATEST

Cell: TypeAlias = bool | int | float | str | None

_PAGE: Final = 500
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class ExportFormat(StrEnum):
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTrial:
    """One trial, its numbers finite or None."""

    facts: Mapping[str, Cell]
    params: Mapping[str, Cell]
    scores: Mapping[str, Cell]
    """By `split.metric`."""
    metrics: Mapping[str, Cell]
    """The last value it reported of each."""
    non_finite: Mapping[str, str]
    """What stood in place of a None: `params.lr` to `nan`, `inf` or `-inf`."""

    def flat(self) -> dict[str, Cell]:
        """One cell per column."""
        cells = dict(self.facts)
        for group in ("params", "scores", "metrics"):
            cells.update((f"{group}.{k}", v) for k, v in getattr(self, group).items())
        cells["non_finite"] = ";".join(f"{k}={v}" for k, v in self.non_finite.items())
        return cells


def export_trials(
    session: ReadSession, study_id: str, form: ExportFormat, destination: BinaryIO
) -> int:
    """Write every trial of a study by number; how many there were. Streams: a page at a time.

    Raises:
        NotFound: there is no such study.
        InvalidInput: parquet was asked for and pyarrow is not installed.
    """
    get_study(session, study_id)
    if form is ExportFormat.JSON:
        return _write_json(session, study_id, destination)
    if form is ExportFormat.CSV:
        return _write_csv(session, study_id, destination)
    return _write_parquet(session, study_id, destination)


def exported_trials(session: ReadSession, study_id: str) -> Iterator[ExportedTrial]:
    """Every trial of a study by number."""
    cursor: str | None = None
    while True:
        page, cursor = exported_page(session, study_id, cursor=cursor)
        yield from page
        if cursor is None:
            return


def exported_page(
    session: ReadSession,
    study_id: str,
    *,
    where: TrialFilter | None = None,
    cursor: str | None = None,
) -> tuple[list[ExportedTrial], str | None]:
    """Some trials by number, and the cursor of the next ones; None where there are no more."""
    page = list_trials(session, study_id, where=where, cursor=cursor, limit=_PAGE)
    ids = [item.trial.id for item in page.items]
    evaluations = load_evaluations(session, ids)
    latest = _latest(session, ids)
    exported = [
        _exported(item, evaluations.get(item.trial.id, ()), latest.get(item.trial.id, {}))
        for item in page.items
    ]
    return exported, page.next_cursor


def _exported(
    item: ListedTrial, evaluations: Sequence[Evaluation], latest: Mapping[str, float]
) -> ExportedTrial:
    trial, candidate = item.trial, item.candidate
    non_finite: dict[str, str] = {}

    def finite(group: str, values: Mapping[str, Cell]) -> dict[str, Cell]:
        return {name: _finite(f"{group}.{name}", v, non_finite) for name, v in values.items()}

    running = trial.started_at is not None and trial.ended_at is not None
    facts: dict[str, Cell] = {
        "number": trial.number,
        "id": trial.id,
        "kind": str(trial.kind),
        "state": str(trial.state),
        "reason": None if trial.reason is None else str(trial.reason),
        "detail": trial.detail,
        "verdict": None if trial.verdict is None else str(trial.verdict),
        "value": trial.value,
        "candidate_id": candidate.id,
        "candidate_digest": candidate.digest,
        "proposer": candidate.proposer,
        "seed": trial.seed,
        "stage": trial.stage,
        "created_at": utc_text(trial.created_at),
        "started_at": utc_text(trial.started_at),
        "ended_at": utc_text(trial.ended_at),
        "duration_s": (trial.ended_at or 0) - (trial.started_at or 0) if running else None,
    }
    scores = {f"{e.split}.{name}": value for e in evaluations for name, value in e.scores.items()}
    return ExportedTrial(
        facts={name: _finite(name, value, non_finite) for name, value in facts.items()},
        params=finite("params", candidate.params),
        scores=finite("scores", scores),
        metrics=finite("metrics", latest),
        non_finite=non_finite,
    )


def _finite(name: str, value: Cell, non_finite: dict[str, str]) -> Cell:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    non_finite[name] = str(value)
    return None


def utc_text(moment: float | None) -> str | None:
    """ISO 8601 with its offset."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat()


def _latest(session: ReadSession, trial_ids: Sequence[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    query = select(LATEST).where(LATEST.c.trial_id.in_(trial_ids)).order_by(LATEST.c.metric)
    for row in session.connection.execute(query):
        found.setdefault(row.trial_id, {})[row.metric] = float(row.value.strip('"'))
    return found


def _write_json(session: ReadSession, study_id: str, destination: BinaryIO) -> int:
    count = 0
    destination.write(b"[")
    for trial in exported_trials(session, study_id):
        document = {
            **trial.facts,
            "params": trial.params,
            "scores": trial.scores,
            "metrics": trial.metrics,
            "non_finite": trial.non_finite,
        }
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        destination.write((b"\n" if count == 0 else b",\n") + text.encode())
        count += 1
    destination.write(b"\n]\n")
    return count


def _columns(session: ReadSession, study_id: str) -> dict[str, set[type]]:
    """Every column that a trial of the study has, with the types found in it: text for a whole
    number of more than 64 bits."""
    columns: dict[str, set[type]] = {}
    for trial in exported_trials(session, study_id):
        for name, value in trial.flat().items():
            kinds = columns.setdefault(name, set())
            if value is not None:
                is_long = isinstance(value, int) and not -(2**63) <= value < 2**63
                kinds.add(str if is_long else type(value))
    columns["non_finite"] = columns.pop("non_finite", {str})
    return columns


def spreadsheet_cells(trial: ExportedTrial) -> dict[str, Cell]:
    """Words that a spreadsheet would run as a formula begin with an apostrophe."""
    return {
        name: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
        for name, cell in trial.flat().items()
    }


def _write_csv(session: ReadSession, study_id: str, destination: BinaryIO) -> int:
    text = io.TextIOWrapper(destination, encoding="utf-8", newline="", write_through=True)
    writer = csv.DictWriter(text, list(_columns(session, study_id)), lineterminator="\n")
    writer.writeheader()
    count = 0
    for trial in exported_trials(session, study_id):
        writer.writerow(spreadsheet_cells(trial))
        count += 1
    text.detach()
    return count


def _write_parquet(session: ReadSession, study_id: str, destination: BinaryIO) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "export: parquet needs pyarrow, which is not installed: pip install 'arl[parquet]', "
            "or export csv or json"
        ) from error
    columns = {name: _common(kinds) for name, kinds in _columns(session, study_id).items()}
    types = {
        bool: pyarrow.bool_(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        str: pyarrow.string(),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    count = 0
    with pyarrow.parquet.ParquetWriter(destination, schema) as writer:
        rows: list[dict[str, Cell]] = []
        for trial in exported_trials(session, study_id):
            rows.append(_row(trial, columns))
            count += 1
            if len(rows) == _PAGE:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema))
    return count


def _common(kinds: set[type]) -> type[bool | float | str]:
    """Where types differ between trials: of numbers the float, else text."""
    if kinds == {int, float}:
        return float
    return next(iter(kinds)) if len(kinds) == 1 else str


def _row(trial: ExportedTrial, columns: Mapping[str, type[bool | float | str]]) -> dict[str, Cell]:
    """Every column, each cell of its column's type."""
    cells = trial.flat()
    row: dict[str, Cell] = {}
    for name, kind in columns.items():
        value = cells.get(name)
        row[name] = None if value is None else kind(value)
    return row
