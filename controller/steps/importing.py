"""Imported: records what another tool says of a study, whole or not at all, never as a score."""

import json
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import select

from controller.spec.loading import resolved
from controller.spec.study import StudySpec
from ledger import writes
from ledger.database import Ledger, ReadSession, WriteSession
from ledger.digests import candidate_digest, json_digest, sha256_hex, values_json
from ledger.entries import Entry, StudySubmitted, ValuesReported
from ledger.import_entries import StudyImported, TrialImported
from ledger.records import IntermediateValue, Params
from ledger.rows import STUDIES
from ledger.states import StudyState, TrialState
from ledger.study_heads import lock_service

_BATCH: Final = 250
"""Trials recorded at a time: what one transaction holds in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedTrial:
    """One trial as another tool recorded it."""

    number: int
    state: TrialState
    """One that is an end."""
    detail: str
    params: Params
    values: Mapping[str, float]
    """Objectives by metric; may be infinite."""
    curve: tuple[IntermediateValue, ...]
    started_at: float | None
    ended_at: float | None
    origin: str = ""
    """JSON text: what the tool says of it and the fields above cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedStudy:
    """A study as another tool recorded it, its trials apart."""

    source: str
    location: str
    name: str
    content: str
    """Digest of all that is taken over, its trials included."""
    origin: str
    spec: StudySpec
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedStudy:
    study_id: str
    is_new: bool
    """False: the same content was imported before, and nothing was written."""
    trials: int


def find_imported(session: ReadSession, content: str) -> str | None:
    """The study that this content was imported as."""
    query = select(STUDIES.c.id).where(
        STUDIES.c.comparison == _comparison(content), STUDIES.c.state == StudyState.IMPORTED
    )
    found: str | None = session.connection.execute(query).scalar()
    return found


def record_import(
    ledger: Ledger,
    study: ReportedStudy,
    trials: Iterable[ReportedTrial],
    *,
    actor: str,
    progress: Callable[[int], None] = lambda _count: None,
) -> ImportedStudy:
    """Write the study and its trials, by ascending number, in one transaction.

    The same content is imported once: asked again, it says as which study. `progress` hears how
    many trials are written.

    Raises:
        InvalidInput: something in it can be no entry. Nothing is written.
    """
    with ledger.write() as session:
        lock_service(session)  # on PostgreSQL two imports of one study would not see each other
        known = find_imported(session, study.content)
        if known is not None:
            return ImportedStudy(study_id=known, is_new=False, trials=study.trials)
        study_id = f"s{secrets.token_hex(5)}"
        _begin(session, study_id, study, actor)
        written = 0
        for batch in _batches(_entries(study_id, study, trials)):
            writes.record(session, study_id, 0, batch)
            written += sum(isinstance(entry, TrialImported) for entry in batch)
            progress(written)
    return ImportedStudy(study_id=study_id, is_new=True, trials=written)


def _comparison(content: str) -> str:
    """Of its own: no score of ours is ever under the same digest."""
    return json_digest({"imported": content})


def _begin(session: WriteSession, study_id: str, study: ReportedStudy, actor: str) -> None:
    spec = resolved(study.spec)
    entry = StudySubmitted(
        name=study.spec.name,
        spec_digest=json_digest(spec),
        bundle_digest="",
        comparison=_comparison(study.content),
        seed=0,
        actor=actor,
    )
    secret = secrets.token_hex(32)
    writes.create_study(session, study_id, spec=spec, secret=secret, budgets={}, entry=entry)
    imported = StudyImported(
        source=study.source,
        location=study.location,
        name=study.name,
        content=study.content,
        trials=study.trials,
        origin=study.origin,
        actor=actor,
    )
    writes.record(session, study_id, 0, [imported])


def _batches(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    batch: list[Entry] = []
    for entry in entries:
        if len(batch) >= _BATCH and isinstance(entry, TrialImported):
            yield batch
            batch = []
        batch.append(entry)
    if batch:
        yield batch


def _entries(
    study_id: str, study: ReportedStudy, trials: Iterable[ReportedTrial]
) -> Iterator[Entry]:
    metrics = [study.spec.objective.metric, *(o.metric for o in study.spec.objectives)]
    comparison = _comparison(study.content)
    seen: set[str] = set()
    for position, trial in enumerate(trials, start=1):
        digest = candidate_digest(
            params=trial.params, source_digest=None, environment=comparison, inputs={}
        )
        entry = _trial_entry(study_id, trial, digest, metrics, position, is_new=digest not in seen)
        seen.add(digest)
        yield entry
        if trial.curve and entry.attempt_id is not None:
            yield _values_entry(entry, entry.attempt_id, trial.curve)


def _trial_entry(
    study_id: str,
    trial: ReportedTrial,
    digest: str,
    metrics: list[str],
    position: int,
    *,
    is_new: bool,
) -> TrialImported:
    complete = trial.state is TrialState.COMPLETE
    finite = {m: v for m, v in trial.values.items() if m in metrics and math.isfinite(v)}
    value = finite.get(metrics[0]) if complete else None
    scores = finite if value is not None else {}
    trial_id = f"{study_id}-{trial.number}"
    return TrialImported(
        trial_id=trial_id,
        number=trial.number,
        candidate_id=f"{study_id}-c{digest[:16]}",
        digest=digest,
        new_candidate=is_new,
        params=trial.params,
        state=trial.state,
        detail=trial.detail,
        value=value,
        scores=scores,
        attempt_id=f"{trial_id}-i0" if scores or trial.curve else None,
        finish_seq=position,
        started_at=trial.started_at,
        ended_at=trial.ended_at,
        origin=trial.origin,
    )


def _values_entry(
    trial: TrialImported, attempt_id: str, curve: tuple[IntermediateValue, ...]
) -> ValuesReported:
    return ValuesReported(
        attempt_id=attempt_id,
        trial_id=trial.trial_id,
        sequence=0,
        count=len(curve),
        digest=sha256_hex(values_json(curve).encode()),
        values=curve,
    )


# --- one line of text per trial, for what is kept on disk on the way ---------------------------


def trial_line(trial: ReportedTrial) -> str:
    """One line of ASCII; infinities as Python's JSON writes them."""
    return json.dumps(
        [
            trial.number,
            str(trial.state),
            trial.detail,
            dict(trial.params),
            dict(trial.values),
            [[v.step, v.metric, v.value] for v in trial.curve],
            trial.started_at,
            trial.ended_at,
            trial.origin,
        ]
    )


def trial_of_line(line: str) -> ReportedTrial:
    number, state, detail, params, values, curve, started_at, ended_at, origin = json.loads(line)
    return ReportedTrial(
        number=number,
        state=TrialState(state),
        detail=detail,
        params=params,
        values=values,
        curve=tuple(IntermediateValue(step=s, metric=m, value=v) for s, m, v in curve),
        started_at=started_at,
        ended_at=ended_at,
        origin=origin,
    )
