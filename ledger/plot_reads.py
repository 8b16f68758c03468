"""What plots read: columns instead of records, and never more of them than a plot can show."""

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import bindparam, select

from ledger.curves import metric_values
from ledger.database import ReadSession
from ledger.records import Attempt, ParamValue, Split, TrialKind, Verdict
from ledger.rows import ATTEMPTS, BATCHES, CANDIDATES, EVALUATIONS, TRIALS, attempt_from
from ledger.statements import Statement
from ledger.states import TrialState

OUTCOMES: Final = ("kept", "discarded", "served", "measured", "pruned", "failed", "cancelled")
"""How a finished trial ended; columns hold places in this list."""

_CHUNK: Final = 500
_BY_VERDICT: Final = {Verdict.KEEP: 0, Verdict.DISCARD: 1, None: 2, Verdict.MEASURED: 3}
_BY_STATE: Final = {TrialState.PRUNED: 4, TrialState.FAILED: 5, TrialState.CANCELLED: 6}
_CODES: Final[Mapping[tuple[str, str | None], int]] = {
    **{(str(state), None): code for state, code in _BY_STATE.items()},
    **{
        (str(TrialState.COMPLETE), None if verdict is None else str(verdict)): code
        for verdict, code in _BY_VERDICT.items()
    },
}
_FINISHED: Final = Statement(
    select(TRIALS.c.finish_seq, TRIALS.c.number, TRIALS.c.state, TRIALS.c.verdict, TRIALS.c.value)
    .where(
        TRIALS.c.study_id == bindparam("study"),
        TRIALS.c.finish_seq.is_not(None),
        TRIALS.c.finish_seq > bindparam("after"),
        TRIALS.c.finish_seq <= bindparam("last"),
        TRIALS.c.kind == bindparam("kind"),
    )
    .order_by(TRIALS.c.finish_seq)
)
_PROPOSED: Final = Statement(
    select(TRIALS.c.finish_seq, CANDIDATES.c.proposer)
    .join(CANDIDATES, CANDIDATES.c.id == TRIALS.c.candidate_id)
    .where(
        TRIALS.c.study_id == bindparam("study"),
        TRIALS.c.finish_seq.is_not(None),
        TRIALS.c.finish_seq > bindparam("after"),
        TRIALS.c.finish_seq <= bindparam("last"),
        TRIALS.c.kind == bindparam("kind"),
    )
    .order_by(TRIALS.c.finish_seq)
)
_STRETCH: Final = 20_000


@dataclass(slots=True)
class FinishedColumns:
    """Search trials in the order they ended; one place in every column is one trial."""

    finish: "array[int]" = field(default_factory=lambda: array("i"))
    number: "array[int]" = field(default_factory=lambda: array("i"))
    outcome: "array[int]" = field(default_factory=lambda: array("b"))
    value: "array[float]" = field(default_factory=lambda: array("d"))
    """NaN where there is none."""

    def __len__(self) -> int:
        return len(self.finish)


def extend_finished(
    session: ReadSession, study_id: str, columns: FinishedColumns, *, whole: bool = True
) -> int:
    """Add the trials that ended since, or with `whole` false some of them; what is there never
    changes. The `finish_seq` of the latest trial of any kind that this session sees."""
    newest = select(TRIALS.c.finish_seq).where(
        TRIALS.c.study_id == study_id, TRIALS.c.finish_seq.is_not(None)
    )
    found = session.connection.execute(newest.order_by(TRIALS.c.finish_seq.desc()).limit(1))
    last = int(found.scalar_one_or_none() or 0)
    known = len(columns)
    after = columns.finish[-1] if known else 0
    while after < last and (whole or len(columns) == known):
        until = min(last, after + _STRETCH)
        rows = session.fetch(
            _FINISHED,
            {"study": study_id, "after": after, "last": until, "kind": str(TrialKind.SEARCH)},
        )
        for finish, number, state, verdict, value in rows:
            columns.finish.append(finish)
            columns.number.append(number)
            columns.outcome.append(_CODES.get((state, verdict), 1))
            columns.value.append(float("nan") if value is None else value)
        after = until
    return last


def params_of(
    session: ReadSession, study_id: str, numbers: Sequence[int]
) -> dict[int, dict[str, ParamValue]]:
    """Parameters by trial number."""
    found: dict[int, dict[str, ParamValue]] = {}
    for chunk in _chunks(numbers):
        query = (
            select(TRIALS.c.number, CANDIDATES.c.params)
            .join(CANDIDATES, CANDIDATES.c.id == TRIALS.c.candidate_id)
            .where(TRIALS.c.study_id == study_id, TRIALS.c.number.in_(chunk))
        )
        rows = session.connection.execute(query)
        found.update((number, json.loads(text)) for number, text in rows)
    return found


def scores_of(
    session: ReadSession, study_id: str, numbers: Sequence[int]
) -> dict[int, dict[str, float]]:
    """Every metric on the search split, by trial number."""
    found: dict[int, dict[str, float]] = {}
    for chunk in _chunks(numbers):
        query = (
            select(TRIALS.c.number, EVALUATIONS.c.scores)
            .join(EVALUATIONS, EVALUATIONS.c.trial_id == TRIALS.c.id)
            .where(
                TRIALS.c.study_id == study_id,
                TRIALS.c.number.in_(chunk),
                EVALUATIONS.c.split == Split.SEARCH,
            )
        )
        rows = session.connection.execute(query)
        found.update((number, json.loads(text)) for number, text in rows)
    return found


def proposers_of(
    session: ReadSession, study_id: str, columns: FinishedColumns, start: int
) -> Iterator[str]:
    """Who proposed each trial of `columns` from a place on, or which arm of a proposer."""
    after = columns.finish[start - 1] if start else 0
    last = columns.finish[-1] if len(columns) else 0
    while after < last:
        until = min(last, after + _STRETCH)
        rows = session.fetch(
            _PROPOSED,
            {"study": study_id, "after": after, "last": until, "kind": str(TrialKind.SEARCH)},
        )
        yield from (proposer for _finish, proposer in rows)
        after = until


def latest_attempts(
    session: ReadSession, study_id: str, *, before: int | None, trials: int
) -> list[tuple[int, Attempt]]:
    """(trial number, attempt) of the latest trials, or of the latest before a number."""
    chosen = select(TRIALS.c.id, TRIALS.c.number).where(TRIALS.c.study_id == study_id)
    if before is not None:
        chosen = chosen.where(TRIALS.c.number < before)
    latest = chosen.order_by(TRIALS.c.number.desc()).limit(trials).subquery()
    query = select(ATTEMPTS, latest.c.number).join(latest, latest.c.id == ATTEMPTS.c.trial_id)
    rows = session.connection.execute(query.order_by(ATTEMPTS.c.started_at, ATTEMPTS.c.id))
    return [(row.number, attempt_from(row)) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A trial that reported something, and how many values."""

    trial_id: str
    number: int
    state: TrialState
    verdict: Verdict | None
    values: int


def reporting_trials(
    session: ReadSession, study_id: str, *, numbers: Sequence[int]
) -> list[Reported]:
    """Of these trials those with values, in their order."""
    found: dict[int, Reported] = {}
    for chunk in _chunks(numbers):
        query = (
            select(
                TRIALS.c.id,
                TRIALS.c.number,
                TRIALS.c.state,
                TRIALS.c.verdict,
                BATCHES.c.value_count,
            )
            .join(BATCHES, BATCHES.c.trial_id == TRIALS.c.id)
            .where(TRIALS.c.study_id == study_id, TRIALS.c.number.in_(chunk))
        )
        for row in session.connection.execute(query):
            known = found.get(row.number)
            found[row.number] = Reported(
                trial_id=row.id,
                number=row.number,
                state=TrialState(row.state),
                verdict=Verdict(row.verdict) if row.verdict else None,
                values=row.value_count + (0 if known is None else known.values),
            )
    return [found[number] for number in numbers if number in found]


def latest_numbers(session: ReadSession, study_id: str, *, limit: int) -> list[int]:
    """Numbers of the latest trials of any kind, the newest first."""
    query = select(TRIALS.c.number).where(TRIALS.c.study_id == study_id)
    rows = session.connection.execute(query.order_by(TRIALS.c.number.desc()).limit(limit))
    return list(rows.scalars())


def values_of(
    session: ReadSession, trial_ids: Sequence[str], metric: str
) -> Iterator[tuple[str, int, float]]:
    """(trial id, step, value) of one metric of some trials, each one's in the order of
    reporting."""
    query = (
        select(BATCHES.c.trial_id, BATCHES.c.payload)
        .join(ATTEMPTS, ATTEMPTS.c.id == BATCHES.c.attempt_id)
        .where(BATCHES.c.trial_id.in_(list(trial_ids)))
        .order_by(ATTEMPTS.c.created_at, ATTEMPTS.c.attempt_index, BATCHES.c.sequence)
    )
    for trial_id, payload in session.connection.execute(query):
        for step, value in metric_values(payload, metric):
            yield trial_id, step, value


def _chunks(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[start : start + _CHUNK] for start in range(0, len(numbers), _CHUNK))
