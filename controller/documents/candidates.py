"""Candidates, their families and their promotions as documents."""

from collections.abc import Iterable

from controller.documents.conversions import conversion_document
from controller.documents.times import iso
from controller.documents.trials import trial_document
from ledger.conversion_records import Conversion
from ledger.lineage import LineageNode
from ledger.records import Candidate, Family, Incumbent, Json, Trial


def candidate_document(
    candidate: Candidate, trials: list[Trial], conversions: Iterable[Conversion]
) -> dict[str, Json]:
    return {
        "candidate": candidate.id,
        "study": candidate.study_id,
        "digest": candidate.digest,
        "state": str(candidate.state),
        "params": dict(candidate.params),
        "parent": candidate.parent_id,
        "proposer": candidate.proposer,
        "rationale": candidate.rationale,
        "source": candidate.source_digest,
        "patch": candidate.patch,
        "trials": [trial_document(trial, candidate) for trial in trials],
        "conversions": [conversion_document(conversion) for conversion in conversions],
    }


def family_document(family: Family) -> dict[str, Json]:
    return {
        "family": family.id,
        "number": family.number,
        "state": str(family.state),
        "reason": _text(family.reason),
        "model": family.model,
        "candidates": list(family.candidates),
        "incumbent": family.incumbent_id,
        "pool": list(family.pool),
        "profile": dict(family.profile),
        "evidence": dict(family.evidence),
        "created_at": iso(family.created_at),
        "ended_at": iso(family.ended_at),
    }


def incumbent_document(incumbent: Incumbent) -> dict[str, Json]:
    return {
        "model": incumbent.model,
        "seq": incumbent.seq,
        "candidate": incumbent.candidate_id,
        "study": incumbent.study_id,
        "family": incumbent.family_id,
        "approver": incumbent.approver,
        "note": incumbent.note,
        "rolled_back_to": incumbent.rolled_back_to,
        "at": iso(incumbent.created_at),
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def lineage_document(candidate_id: str, nodes: Iterable[LineageNode]) -> dict[str, Json]:
    """Each node after those that it came from."""
    listed: list[Json] = [
        {
            "kind": str(node.kind),
            "id": node.id,
            "came_from": list(node.came_from),
            "facts": dict(node.facts),
        }
        for node in nodes
    ]
    return {"candidate": candidate_id, "nodes": listed}
