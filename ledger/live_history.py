"""The finished search trials of a study, as its proposer is told of them."""

import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Select, select

from ledger.database import ReadSession
from ledger.digests import sha256_hex
from ledger.records import Split, TrialKind, Verdict
from ledger.rows import CANDIDATES, EVALUATIONS, TRIALS
from ledger.search import DETAIL_CHARS, TIME_DIGITS, FinishedTrial
from ledger.states import Reason, TrialState
from ledger.trial_parts import load_times

_TOGETHER: Final = 1000
"""Rows whose JSON is read at once: it is faster, and their parameters' names take no room each."""


def load_history(
    session: ReadSession, study_id: str, *, with_scores: bool, with_times: bool
) -> tuple[list[FinishedTrial], frozenset[str], int]:
    """Finished search trials in order, parameter digests of all search trials, their number."""
    finished: list[FinishedTrial] = []
    proposed: set[str] = set()
    times = load_times(session, study_id) if with_times else {}
    found = session.connection.execute(_search_trials(study_id, with_scores=with_scores))
    count, words = 0, dict[str, str]()
    for rows in found.partitions(_TOGETHER):
        count += len(rows)
        # Parameters are stored as their canonical JSON, so this is digests.params_digest.
        proposed.update(sha256_hex(row.params.encode()) for row in rows)
        ended = [row for row in rows if row.finish_seq is not None]
        params = _objects([row.params for row in ended])
        scores = _objects([(with_scores and row.scores) or "{}" for row in ended])
        for row, chosen, scored in zip(ended, params, scores, strict=True):
            finished.append(_trial(row, chosen, scored, times.get(row.number, 0.0), words))
    return finished, frozenset(proposed), count


def _objects(texts: Sequence[str]) -> list[Any]:
    found: list[Any] = json.loads(f"[{','.join(texts)}]")
    return found


def _trial(
    row: Any, params: Any, scores: Any, wall_s: float, words: dict[str, str]
) -> FinishedTrial:
    """`words` holds what many trials say, once."""
    digest = row.source_digest
    return FinishedTrial(
        number=row.number,
        params=params,
        state=TrialState(row.state),
        value=row.value,
        reason=Reason(row.reason),
        candidate_id=row.candidate_id,
        kept=row.verdict == Verdict.KEEP,
        scores=scores,
        detail=row.detail[:DETAIL_CHARS],
        proposer=words.setdefault(row.proposer, row.proposer),
        parent_id=row.parent_id,
        rationale=row.rationale[:DETAIL_CHARS],
        source_digest=None if digest is None else words.setdefault(digest, digest),
        wall_s=round(wall_s, TIME_DIGITS),
    )


def _search_trials(study_id: str, *, with_scores: bool) -> Select[Any]:
    """Every search trial with its candidate's part, the finished ones in order."""
    columns = (
        TRIALS.c.number,
        TRIALS.c.state,
        TRIALS.c.value,
        TRIALS.c.reason,
        TRIALS.c.candidate_id,
        CANDIDATES.c.params,
        TRIALS.c.verdict,
        TRIALS.c.finish_seq,
        TRIALS.c.detail,
        CANDIDATES.c.proposer,
        CANDIDATES.c.parent_id,
        CANDIDATES.c.rationale,
        CANDIDATES.c.source_digest,
    )
    scored = (EVALUATIONS.c.trial_id == TRIALS.c.id) & (EVALUATIONS.c.split == Split.SEARCH)
    query = select(*columns, *((EVALUATIONS.c.scores,) if with_scores else ()))
    query = query.join(CANDIDATES, CANDIDATES.c.id == TRIALS.c.candidate_id)
    if with_scores:
        query = query.outerjoin(EVALUATIONS, scored)
    return (
        query.where(TRIALS.c.study_id == study_id, TRIALS.c.kind == TrialKind.SEARCH)
        .order_by(TRIALS.c.finish_seq)
        .execution_options(yield_per=_TOGETHER)
    )
