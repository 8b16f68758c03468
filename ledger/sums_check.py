"""Recomputes budget sums from trials and attempts, and stored files from their bytes."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, case, func, literal, select, union

from ledger.artifacts import ArtifactStore
from ledger.budgets import TOLERANCE
from ledger.chain_check import Finding
from ledger.database import ReadSession
from ledger.errors import ArtifactCorrupt, NotFound
from ledger.records import Resource, TrialKind
from ledger.rows import (
    ARTIFACTS,
    ATTEMPTS,
    BUDGETS,
    CANDIDATES,
    EVALUATIONS,
    MODEL_CALLS,
    STUDIES,
    TRIALS,
)
from ledger.states import FREE, STUDY_TERMINAL, TRIAL_TERMINAL, AttemptState
from ledger.tree_references import let_go_trees

_UNRECORDED = (Resource.LLM_TOKENS, Resource.LLM_COST_USD)
"""What is set aside for calls under way is in no row but the budget's own; a study that is over
has none under way."""
_TOKENS = MODEL_CALLS.c.prompt_tokens + MODEL_CALLS.c.completion_tokens

_Sums = Mapping[str, tuple[float, float]]
"""By study: (reserved, used), used being spent and overrun together."""


def budget_findings(session: ReadSession) -> Iterator[Finding]:
    """Lines that do not add up to what the study's trials and attempts used."""
    sums: Mapping[str, _Sums] = {
        Resource.TRIALS: _trial_sums(session),
        Resource.GPU_S: _gpu_sums(session),
        Resource.WALL_S: _wall_sums(session),
        Resource.LLM_TOKENS: _model_sums(session, _TOKENS),
        Resource.LLM_COST_USD: _model_sums(session, MODEL_CALLS.c.cost_usd),
    }
    ended = select(STUDIES.c.id).where(STUDIES.c.state.in_(sorted(STUDY_TERMINAL)))
    over = set(session.connection.execute(ended).scalars())
    for line in session.connection.execute(select(BUDGETS).order_by(BUDGETS.c.study_id)):
        if line.resource not in sums:
            continue
        reserved, used = sums[line.resource].get(line.study_id, (0.0, 0.0))
        where = f"budgets {line.study_id}/{line.resource}"
        is_known = line.resource not in _UNRECORDED or line.study_id in over
        if is_known and _differ(line.reserved, reserved):
            yield Finding(where, f"reserved is {line.reserved:g}, its rows add up to {reserved:g}")
        if _differ(line.spent + line.overrun, used):
            total = line.spent + line.overrun
            yield Finding(where, f"spent and overrun are {total:g}, its rows add up to {used:g}")


def _differ(a: float, b: float) -> bool:
    return abs(a - b) > TOLERANCE * max(1.0, abs(a), abs(b))


def _trial_sums(session: ReadSession) -> _Sums:
    ended = case((TRIALS.c.state.in_(sorted(TRIAL_TERMINAL)), 1), else_=0)
    free = case((TRIALS.c.reason.in_(sorted(FREE)), 1), else_=0)
    query = select(
        TRIALS.c.study_id, func.count() - func.sum(ended), func.sum(ended) - func.sum(free)
    )
    query = query.where(TRIALS.c.kind == TrialKind.SEARCH).group_by(TRIALS.c.study_id)
    return _by_study(session, query)


def _gpu_sums(session: ReadSession) -> _Sums:
    holds = ATTEMPTS.c.state.in_((AttemptState.LAUNCHING, AttemptState.RUNNING))
    reserved = func.sum(case((holds, ATTEMPTS.c.gpu_s_reserved), else_=0.0))
    query = select(ATTEMPTS.c.study_id, reserved, func.sum(ATTEMPTS.c.gpu_s_spent))
    return _by_study(session, query.group_by(ATTEMPTS.c.study_id))


def _wall_sums(session: ReadSession) -> _Sums:
    return _by_study(session, select(STUDIES.c.id, literal(0.0), STUDIES.c.active_s))


def _model_sums(session: ReadSession, amount: ColumnElement[Any]) -> _Sums:
    query = select(MODEL_CALLS.c.study_id, literal(0.0), func.sum(amount))
    return _by_study(session, query.group_by(MODEL_CALLS.c.study_id))


def _by_study(session: ReadSession, query: Any) -> _Sums:
    return {row[0]: (float(row[1]), float(row[2])) for row in session.connection.execute(query)}


def artifact_findings(
    session: ReadSession, store: ArtifactStore, say: Callable[[str], None]
) -> Iterator[Finding]:
    """Trees that the ledger refers to and the store lacks or holds damaged; those that were let go
    on purpose may be gone."""
    let_go = let_go_trees(session)
    trees = {t: where for t, where in _referenced_trees(session) if t not in let_go}
    bundles = select(STUDIES.c.bundle_digest, STUDIES.c.id).where(STUDIES.c.bundle_digest != "")
    for digest, study_id in {
        row[0]: row[1] for row in session.connection.execute(bundles)
    }.items():
        where = f"studies {study_id} bundle"
        say(f"bundle {digest}")
        try:
            trees.update(dict.fromkeys(_trees_of_bundle(store, digest), where))
        except (ArtifactCorrupt, NotFound) as error:
            yield Finding(where, str(error))
    for tree, where in trees.items():
        say(f"artifact {tree}")
        try:
            store.verify(tree)
        except (ArtifactCorrupt, NotFound) as error:
            yield Finding(where, str(error))


def _trees_of_bundle(store: ArtifactStore, digest: str) -> list[str]:
    """A bundle is a document that names its code and its splits by tree digest."""
    try:
        document = json.loads(store.read_bytes(digest))
        return [document["code"], *document["splits"].values()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactCorrupt(f"artifact {digest} is not a bundle: {error!r}") from error


def _referenced_trees(session: ReadSession) -> Iterator[tuple[str, str]]:
    """(tree digest, a row that refers to it), each digest once."""
    seen: set[str] = set()
    references = union(
        select(ARTIFACTS.c.digest, literal("artifacts ") + ARTIFACTS.c.attempt_id),
        select(EVALUATIONS.c.artifact_digest, literal("evaluations ") + EVALUATIONS.c.trial_id),
        select(CANDIDATES.c.source_digest, literal("candidates ") + CANDIDATES.c.id),
    )
    for digest, where in session.connection.execute(references):
        if digest and digest not in seen:
            seen.add(digest)
            yield digest, where
    for study_id, inputs in session.connection.execute(select(STUDIES.c.id, STUDIES.c.inputs)):
        for name, digest in sorted(json.loads(inputs).items()):
            if digest not in seen:
                seen.add(digest)
                yield digest, f"studies {study_id} input {name}"
