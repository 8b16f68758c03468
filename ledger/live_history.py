"""The finished search trials of a study, as its proposer is told of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Row as DatabaseRow
from sqlalchemy import Select, select

from ledger.database import ReadSession
from ledger.digest_set import DigestSet
from ledger.finished_trials import BLOCK, Columns, Finished, FinishedTrials
from ledger.records import Split, TrialKind, Verdict
from ledger.rows import CANDIDATES, EVALUATIONS, TRIALS
from ledger.search import DETAIL_CHARS, TIME_DIGITS
from ledger.trial_parts import load_times

_NO_SCORES: Final = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedHistory:
    finished: Finished
    """Search trials that ended, in the order of finishing."""
    proposed: set[str] | DigestSet
    """Parameter digests of every search trial."""
    search_count: int
    """How many search trials there are."""


def load_history(
    session: ReadSession, study_id: str, *, with_scores: bool, with_times: bool, packed: bool
) -> LoadedHistory:
    """With `packed`, for whoever looks at little of it: see ledger.finished_trials."""
    times = load_times(session, study_id) if with_times else {}
    history = FinishedTrials()
    digests: list[bytes] = []
    found = session.connection.execute(_finished(study_id, with_scores=with_scores))
    for rows in found.partitions(BLOCK):
        columns = _columns(rows, times, with_scores=with_scores)
        # Parameters are stored as their canonical JSON, so this is digests.params_digest.
        digests.extend(sha256(params.encode()).digest() for params in columns.params)
        history.extend_with(columns)
    for (params,) in session.connection.execute(_unfinished(study_id)):
        digests.append(sha256(params.encode()).digest())
    return LoadedHistory(
        finished=history if packed else list(history),
        proposed=DigestSet(digests) if packed else {digest.hex() for digest in digests},
        search_count=len(digests),
    )


def _columns(
    rows: Sequence[DatabaseRow[Any]], times: Mapping[int, float], *, with_scores: bool
) -> Columns:
    read = dict(zip(_FIELDS, zip(*rows, strict=True), strict=False))
    scores = [text or _NO_SCORES for text in read.pop("scores")] if with_scores else None
    verdicts, numbers = read.pop("verdict"), read["number"]
    cut = {
        name: [text and text[:DETAIL_CHARS] for text in read[name]]
        for name in ("detail", "rationale")
    }
    return Columns(
        **read | cut,
        kept=[verdict == Verdict.KEEP for verdict in verdicts],
        scores=scores or [_NO_SCORES] * len(rows),
        wall_s=[round(times.get(number, 0.0), TIME_DIGITS) for number in numbers]
        if times
        else [0.0] * len(rows),
    )


_FIELDS: Final = (
    "number",
    "state",
    "value",
    "reason",
    "candidate_id",
    "params",
    "verdict",
    "detail",
    "proposer",
    "parent_id",
    "rationale",
    "source_digest",
    "scores",
)


def _finished(study_id: str, *, with_scores: bool) -> Select[Any]:
    """Search trials that ended, with their candidate's part, in order: the fields of _FIELDS."""
    columns = (
        TRIALS.c.number,
        TRIALS.c.state,
        TRIALS.c.value,
        TRIALS.c.reason,
        TRIALS.c.candidate_id,
        CANDIDATES.c.params,
        TRIALS.c.verdict,
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
        _of_search(query, study_id)
        .where(TRIALS.c.finish_seq.is_not(None))
        .order_by(TRIALS.c.finish_seq)
        .execution_options(yield_per=BLOCK)
    )


def _unfinished(study_id: str) -> Select[Any]:
    """The parameters of the other search trials."""
    query = select(CANDIDATES.c.params)
    query = query.join(TRIALS, CANDIDATES.c.id == TRIALS.c.candidate_id)
    return _of_search(query, study_id).where(TRIALS.c.finish_seq.is_(None))


def _of_search(query: Select[Any], study_id: str) -> Select[Any]:
    return query.where(TRIALS.c.study_id == study_id, TRIALS.c.kind == TrialKind.SEARCH)
