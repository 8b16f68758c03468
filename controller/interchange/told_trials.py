"""A study's search trials as other tools are told of them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select

from controller.spec.study import StudySpec
from ledger.database import ReadSession
from ledger.export import utc_text
from ledger.import_reads import trial_origins
from ledger.reads import TrialFilter, list_trials, load_evaluations, read_values
from ledger.records import Candidate, Evaluation, IntermediateValue, Json, Split, Trial, TrialKind
from ledger.rows import LATEST, TRIALS
from ledger.states import TrialState

PREFIX: Final = "arl:"
"""Of every attribute and tag that is ARL's own."""
_PAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldTrial:
    trial: Trial
    candidate: Candidate
    scores: Mapping[str, float]
    """By metric on the search split; of a trial that was served, those of the one it repeats."""
    evaluations: Sequence[Evaluation]
    origin: Mapping[str, Any]
    """What the tool said that it was imported from; empty for ARL's own."""

    def facts(self) -> dict[str, Json]:
        """ARL's ids and words, by name."""
        trial, candidate = self.trial, self.candidate
        facts: dict[str, Json] = {
            "trial": trial.id,
            "number": trial.number,
            "kind": str(trial.kind),
            "candidate": candidate.id,
            "candidate_digest": candidate.digest,
            "proposer": candidate.proposer,
            "state": str(trial.state),
            "reason": None if trial.reason is None else str(trial.reason),
            "detail": trial.detail or None,
            "verdict": None if trial.verdict is None else str(trial.verdict),
            "seed": trial.seed,
            "started_at": utc_text(trial.started_at),
            "ended_at": utc_text(trial.ended_at),
        }
        return {name: value for name, value in facts.items() if value is not None}


def told_trials(
    session: ReadSession, study_id: str, *, kinds: Sequence[TrialKind] = (TrialKind.SEARCH,)
) -> Iterator[ToldTrial]:
    """Every trial of these kinds by number, a page at a time."""
    origins = trial_origins(session, study_id)
    of_candidate: dict[str, Mapping[str, float]] = {}
    cursor: str | None = None
    where = TrialFilter(kinds=list(kinds))
    while True:
        page = list_trials(session, study_id, where=where, cursor=cursor, limit=_PAGE)
        found = load_evaluations(session, [item.trial.id for item in page.items])
        for item in page.items:
            evaluations = found.get(item.trial.id, [])
            own = next((e.scores for e in evaluations if e.split is Split.SEARCH), None)
            if own is not None:
                of_candidate.setdefault(item.candidate.id, own)
            elif item.trial.state is TrialState.COMPLETE:
                own = of_candidate.get(item.candidate.id)
            yield ToldTrial(
                trial=item.trial,
                candidate=item.candidate,
                scores=own or {},
                evaluations=evaluations,
                origin=_origin(origins, item.trial.number),
            )
        cursor = page.next_cursor
        if cursor is None:
            return


def _origin(origins: Iterator[tuple[int, str]], number: int) -> Mapping[str, Any]:
    """Of an imported study every trial has one, in the same order."""
    for found, text in origins:
        if found == number:
            document = json.loads(text) if text else {}
            return document if isinstance(document, dict) else {}
    return {}


def curve_metric(session: ReadSession, study_id: str, spec: StudySpec) -> str | None:
    """Which reported metric stands for a trial's progress: what the study prunes by, else the
    objective's namesake, else the only one."""
    query = select(LATEST.c.metric).join(TRIALS, TRIALS.c.id == LATEST.c.trial_id)
    query = query.where(TRIALS.c.study_id == study_id).distinct()
    reported = set(session.connection.execute(query).scalars())
    for metric in (spec.pruning.metric, spec.objective.metric):
        if metric in reported:
            return metric
    return reported.pop() if len(reported) == 1 else None


def curve(session: ReadSession, trial_id: str, metric: str | None) -> Iterator[IntermediateValue]:
    """What a trial reported of one metric; nothing for None."""
    return iter(()) if metric is None else read_values(session, trial_id, metric=metric)


def read_spec(document: Mapping[str, Json]) -> StudySpec:
    """A stored study's spec. Its rules were checked when it was accepted; an imported one breaks
    some, since nothing runs it."""
    text = json.dumps(document)
    return StudySpec.model_validate_json(text, by_alias=True, by_name=False)
