"""What a worker needs to know of a study to go on with it, loaded once after a start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlalchemy import Select, func, select

from ledger.conversion_reads import Converting, load_converting
from ledger.curves import Curve, Grow, load_curves
from ledger.database import ReadSession
from ledger.digest_set import DigestSet
from ledger.errors import NotFound
from ledger.finished_trials import Finished
from ledger.live_history import load_history
from ledger.records import (
    Artifact,
    Attempt,
    AttemptKind,
    BudgetLine,
    Candidate,
    Command,
    Evaluation,
    Family,
    Resource,
    Split,
    Study,
    Trial,
    TrialKind,
)
from ledger.rows import (
    ATTEMPTS,
    BATCHES,
    CANDIDATES,
    FAMILIES,
    STATES,
    STUDIES,
    TRIALS,
    attempt_from,
    candidate_from,
    family_from,
    study_from,
    trial_from,
)
from ledger.states import (
    ATTEMPT_TERMINAL,
    TRIAL_TERMINAL,
    AttemptState,
    TrialState,
)
from ledger.trial_parts import (
    chunks,
    load_artifacts,
    load_budgets,
    load_evaluations,
    pending_commands,
)

AttemptKey: TypeAlias = tuple[str | None, AttemptKind, Split | None]
"""(trial id, kind, split): attempts with one key are numbered by their index."""

_UNFINISHED: Final = sorted(set(TrialState) - TRIAL_TERMINAL)
_OPEN: Final = sorted(set(AttemptState) - ATTEMPT_TERMINAL)
"""Named one by one, so that an index finds them among a million others."""
_MEASURED_KINDS: Final = (TrialKind.BASELINE, TrialKind.REPLAY, TrialKind.CONVERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """A study as its worker sees it. Only `finished` and `proposed` grow with its history."""

    study: Study
    budgets: Mapping[Resource, BudgetLine]
    trials: Sequence[Trial]
    """Not ended yet, by number."""
    baselines: Sequence[Trial]
    """In whatever state, by number."""
    replays: Sequence[Trial]
    """The same."""
    converting: Converting
    candidates: Mapping[str, Candidate]
    """Of every trial in `trials`, `baselines` and `replays`; by id."""
    attempts: Sequence[Attempt]
    """Not ended yet, in the order of their creation."""
    past_attempts: Sequence[Attempt]
    """Ended attempts of trials that have not ended, and every ended prepare attempt."""
    attempt_counts: Mapping[AttemptKey, int]
    """How many attempts there were, ended ones included; also the next one's index."""
    evaluations: Mapping[str, Sequence[Evaluation]]
    """Of every trial in `trials` and every one that is no search trial; by trial id."""
    artifacts: Mapping[str, Sequence[Artifact]]
    """Of every trial in `trials` and every one that is no search trial; by trial id."""
    finished: Finished
    """Search trials that ended, in the order of finishing."""
    proposed: set[str] | DigestSet
    """Parameter digests of every search trial."""
    search_count: int
    """How many search trials were proposed: `History.next_number` of the next call."""
    next_number: int
    """Number of the next trial of any kind."""
    next_finish_seq: int
    value_batches: Mapping[str, int]
    """How many batches were accepted of each attempt that has not ended; also the next one's
    sequence number."""
    value_counts: Mapping[str, int]
    """How many values were accepted of each attempt that has not ended."""
    families: Sequence[Family]
    proposer_state: bytes | None
    commands: Sequence[Command]
    """Not carried out yet, oldest first."""
    curves: Mapping[str, Curve]
    """Reported values of the metric that was asked for, by trial id."""


def load_live(
    session: ReadSession,
    study_id: str,
    *,
    curve_metric: str | None = None,
    grow: Grow | None = None,
    with_scores: bool = False,
    with_times: bool = False,
    packed: bool = False,
) -> LiveState:
    """Everything a worker needs to go on with a study. Raises NotFound. With `curve_metric`, also
    the reported values of that metric of every trial, of each what `grow` keeps when a value
    comes; with `with_scores`, every metric of every finished trial; with `with_times`, what its
    attempts took; with `packed`, the history as whoever reads little of it wants it."""
    study = _study(session, study_id)
    trials = [trial_from(r) for r in session.connection.execute(_tracked_trials(study_id))]
    ids = [trial.id for trial in trials]
    live_ids = {trial.id for trial in trials if trial.state not in TRIAL_TERMINAL}
    attempts = _attempts(session, study_id, live_ids)
    live_attempts = [a for a in attempts if a.state not in ATTEMPT_TERMINAL]
    history = load_history(
        session, study_id, with_scores=with_scores, with_times=with_times, packed=packed
    )
    next_number, next_finish = _next_numbers(session, study_id)
    batches = _batches(session, [a.id for a in live_attempts])
    return LiveState(
        study=study,
        budgets=load_budgets(session, study_id),
        trials=[t for t in trials if t.id in live_ids],
        baselines=[t for t in trials if t.kind is TrialKind.BASELINE],
        replays=[t for t in trials if t.kind is TrialKind.REPLAY],
        converting=load_converting(session, study_id, trials),
        candidates=_candidates(session, {t.candidate_id for t in trials}),
        attempts=live_attempts,
        past_attempts=[a for a in attempts if a.state in ATTEMPT_TERMINAL],
        attempt_counts=_counts(attempts),
        evaluations=load_evaluations(session, ids),
        artifacts=load_artifacts(session, ids),
        finished=history.finished,
        proposed=history.proposed,
        search_count=history.search_count,
        next_number=next_number,
        next_finish_seq=next_finish,
        value_batches={attempt_id: found[0] for attempt_id, found in batches.items()},
        value_counts={attempt_id: found[1] for attempt_id, found in batches.items()},
        families=_families(session, study_id),
        proposer_state=_proposer_state(session, study_id),
        commands=pending_commands(session, study_id),
        curves=load_curves(session, study_id, curve_metric, grow) if curve_metric else {},
    )


def _study(session: ReadSession, study_id: str) -> Study:
    row = session.connection.execute(select(STUDIES).where(STUDIES.c.id == study_id)).first()
    if row is None:
        raise NotFound(f"no study has the id {study_id}: `arl studies` lists them")
    return study_from(row)


def _proposer_state(session: ReadSession, study_id: str) -> bytes | None:
    query = select(STATES.c.state).where(STATES.c.study_id == study_id)
    return session.connection.execute(query).scalar()


def _families(session: ReadSession, study_id: str) -> list[Family]:
    query = select(FAMILIES).where(FAMILIES.c.study_id == study_id).order_by(FAMILIES.c.number)
    return [family_from(row) for row in session.connection.execute(query)]


def _tracked_trials(study_id: str) -> Select[tuple[object, ...]]:
    """Trials that have not ended, and all that are not search trials."""
    tracked = TRIALS.c.state.in_(_UNFINISHED) | TRIALS.c.kind.in_(_MEASURED_KINDS)
    return select(TRIALS).where(TRIALS.c.study_id == study_id, tracked).order_by(TRIALS.c.number)


def _attempts(session: ReadSession, study_id: str, live_trials: set[str]) -> list[Attempt]:
    """All that have not ended, all of live trials, and all without a trial."""
    found = {attempt.id: attempt for attempt in open_attempts(session, study_id)}
    alone = select(ATTEMPTS).where(ATTEMPTS.c.study_id == study_id, ATTEMPTS.c.trial_id.is_(None))
    for row in session.connection.execute(alone):
        found[row.id] = attempt_from(row)
    for ids in chunks(sorted(live_trials)):
        query = select(ATTEMPTS).where(ATTEMPTS.c.trial_id.in_(ids))
        for row in session.connection.execute(query):
            found[row.id] = attempt_from(row)
    return sorted(found.values(), key=lambda a: (a.created_at, a.kind, a.index))


def open_attempts(session: ReadSession, study_id: str) -> list[Attempt]:
    """A study's attempts that have not ended, in no order."""
    query = select(ATTEMPTS).where(ATTEMPTS.c.study_id == study_id, ATTEMPTS.c.state.in_(_OPEN))
    return [attempt_from(row) for row in session.connection.execute(query)]


def _counts(attempts: Sequence[Attempt]) -> dict[AttemptKey, int]:
    counts: dict[AttemptKey, int] = {}
    for attempt in attempts:
        key = (attempt.trial_id, attempt.kind, attempt.split)
        counts[key] = counts.get(key, 0) + 1
    return counts


def _next_numbers(session: ReadSession, study_id: str) -> tuple[int, int]:
    query = select(func.max(TRIALS.c.number), func.max(TRIALS.c.finish_seq))
    row = session.connection.execute(query.where(TRIALS.c.study_id == study_id)).one()
    return (-1 if row[0] is None else int(row[0])) + 1, int(row[1] or 0) + 1


def _candidates(session: ReadSession, ids: set[str]) -> dict[str, Candidate]:
    found: dict[str, Candidate] = {}
    for chunk in chunks(sorted(ids)):
        query = select(CANDIDATES).where(CANDIDATES.c.id.in_(chunk))
        for row in session.connection.execute(query):
            found[row.id] = candidate_from(row)
    return found


def _batches(session: ReadSession, attempt_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Batches and values accepted so far, by attempt."""
    counts = dict.fromkeys(attempt_ids, (0, 0))
    for ids in chunks(attempt_ids):
        query = select(BATCHES.c.attempt_id, func.count(), func.sum(BATCHES.c.value_count))
        query = query.where(BATCHES.c.attempt_id.in_(ids)).group_by(BATCHES.c.attempt_id)
        rows = session.connection.execute(query)
        counts.update({row[0]: (int(row[1]), int(row[2])) for row in rows})
    return counts
