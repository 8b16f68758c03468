"""Where a candidate comes from and what became of it, as an ordered list of nodes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlalchemy import select

from ledger.conversion_reads import list_conversions
from ledger.database import ReadSession
from ledger.reads import get_candidate, get_study, load_artifacts, load_evaluations
from ledger.records import Candidate, Json, Study, Trial
from ledger.rows import FAMILIES, INCUMBENTS, TRIALS, family_from, incumbent_from, trial_from


class NodeKind(StrEnum):
    STUDY = "study"
    INPUT = "input"
    CANDIDATE = "candidate"
    TRIAL = "trial"
    ARTIFACT = "artifact"
    EVALUATION = "evaluation"
    FAMILY = "family"
    PROMOTION = "promotion"
    CONVERSION = "conversion"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    kind: NodeKind
    id: str
    came_from: tuple[str, ...]
    """Ids of the nodes it was made of or from; each of them comes earlier in the list."""
    facts: Mapping[str, Json] = field(default_factory=dict)


def lineage(session: ReadSession, candidate_id: str) -> list[LineageNode]:
    """The study and its inputs, the candidate's ancestors from the oldest, the candidate, its
    trials (replays too) with their artifacts and scores, its families, its promotions, and what
    was made of its promoted model.

    Raises:
        NotFound: there is no such candidate.
    """
    candidate = get_candidate(session, candidate_id)
    study = get_study(session, candidate.study_id)
    nodes = [_study_node(study), *_input_nodes(study)]
    inputs = tuple(node.id for node in nodes if node.kind is NodeKind.INPUT)
    nodes += [_candidate_node(one, inputs) for one in _ancestry(session, candidate)]
    trials = _trials(session, candidate_id)
    nodes += _trial_nodes(session, trials)
    families = {trial.family_id for trial in trials if trial.family_id}
    nodes += _family_nodes(session, study.id, candidate_id, families)
    nodes += _promotion_nodes(session, candidate_id)
    nodes += _conversion_nodes(session, candidate_id, {node.id for node in nodes})
    return nodes


def _study_node(study: Study) -> LineageNode:
    facts: dict[str, Json] = {
        "name": study.name,
        "spec_digest": study.spec_digest,
        "bundle_digest": study.bundle_digest,
        "comparison": study.comparison,
        "seed": study.seed,
    }
    return LineageNode(kind=NodeKind.STUDY, id=study.id, came_from=(), facts=facts)


def _input_nodes(study: Study) -> Iterator[LineageNode]:
    for name, digest in sorted(study.inputs.items()):
        yield LineageNode(
            kind=NodeKind.INPUT,
            id=f"{name}:{digest}",
            came_from=(study.id,),
            facts={"name": name, "digest": digest},
        )


def _ancestry(session: ReadSession, candidate: Candidate) -> list[Candidate]:
    """From the oldest ancestor to the candidate itself."""
    chain = [candidate]
    seen = {candidate.id}
    parent = candidate.parent_id
    while parent is not None and parent not in seen:
        seen.add(parent)
        chain.append(get_candidate(session, parent))
        parent = chain[-1].parent_id
    return chain[::-1]


def _candidate_node(candidate: Candidate, inputs: tuple[str, ...]) -> LineageNode:
    parent = () if candidate.parent_id is None else (candidate.parent_id,)
    facts: dict[str, Json] = {
        "digest": candidate.digest,
        "params": dict(candidate.params),
        "source_digest": candidate.source_digest,
        "proposer": candidate.proposer,
        "rationale": candidate.rationale,
        "state": str(candidate.state),
    }
    return LineageNode(
        kind=NodeKind.CANDIDATE,
        id=candidate.id,
        came_from=(candidate.study_id, *inputs, *parent),
        facts=facts,
    )


def _trials(session: ReadSession, candidate_id: str) -> list[Trial]:
    query = select(TRIALS).where(TRIALS.c.candidate_id == candidate_id).order_by(TRIALS.c.number)
    return [trial_from(row) for row in session.connection.execute(query)]


def _trial_nodes(session: ReadSession, trials: Sequence[Trial]) -> Iterator[LineageNode]:
    ids = [trial.id for trial in trials]
    artifacts, evaluations = load_artifacts(session, ids), load_evaluations(session, ids)
    for trial in trials:
        facts: dict[str, Json] = {
            "number": trial.number,
            "kind": str(trial.kind),
            "state": str(trial.state),
            "reason": None if trial.reason is None else str(trial.reason),
            "seed": trial.seed,
            "value": trial.value,
            "stage": trial.stage,
        }
        yield LineageNode(
            kind=NodeKind.TRIAL, id=trial.id, came_from=(trial.candidate_id,), facts=facts
        )
        saved: set[str] = set()
        for artifact in artifacts.get(trial.id, ()):
            node_id = f"{trial.id}:{artifact.digest}"
            saved.add(artifact.digest)
            yield LineageNode(
                kind=NodeKind.ARTIFACT,
                id=node_id,
                came_from=(trial.id,),
                facts={"digest": artifact.digest, "role": str(artifact.role)},
            )
        for scored in evaluations.get(trial.id, ()):
            source = scored.artifact_digest
            yield LineageNode(
                kind=NodeKind.EVALUATION,
                id=f"{trial.id}:{scored.split}",
                came_from=(f"{trial.id}:{source}" if source in saved else trial.id,),
                facts={
                    "split": str(scored.split),
                    "bundle_digest": scored.bundle_digest,
                    "scores": dict(scored.scores),
                },
            )


def _family_nodes(
    session: ReadSession, study_id: str, candidate_id: str, with_trials: set[str]
) -> Iterator[LineageNode]:
    query = select(FAMILIES).where(FAMILIES.c.study_id == study_id).order_by(FAMILIES.c.number)
    for row in session.connection.execute(query).all():
        if row.id not in with_trials and candidate_id not in json.loads(row.candidates):
            continue
        family = family_from(row)
        yield LineageNode(
            kind=NodeKind.FAMILY,
            id=family.id,
            came_from=(candidate_id,),
            facts={
                "state": str(family.state),
                "reason": None if family.reason is None else str(family.reason),
                "incumbent": family.incumbent_id,
                "evidence": dict(family.evidence),
            },
        )


def _promotion_nodes(session: ReadSession, candidate_id: str) -> Iterator[LineageNode]:
    query = select(INCUMBENTS).where(INCUMBENTS.c.candidate_id == candidate_id)
    query = query.order_by(INCUMBENTS.c.model, INCUMBENTS.c.seq)
    for row in session.connection.execute(query).all():
        pointer = incumbent_from(row)
        yield LineageNode(
            kind=NodeKind.PROMOTION,
            id=f"{pointer.model}:{pointer.seq}",
            came_from=(pointer.family_id or candidate_id,),
            facts={"model": pointer.model, "seq": pointer.seq, "approver": pointer.approver},
        )


def _conversion_nodes(
    session: ReadSession, candidate_id: str, known: set[str]
) -> Iterator[LineageNode]:
    for made in list_conversions(session, candidate_id=candidate_id):
        artifacts = [f"{t}:{d}" for t, d in zip(made.sources, made.digests, strict=True)]
        yield LineageNode(
            kind=NodeKind.CONVERSION,
            id=made.id,
            came_from=tuple(node for node in artifacts if node in known) or (candidate_id,),
            facts={
                "model": made.model,
                "method": made.method,
                "settings": dict(made.settings),
                "state": str(made.state),
                "reason": None if made.reason is None else str(made.reason),
                "artifact": made.artifact_digest,
            },
        )
