"""Candidates: one with its trials, its patch file by file, where it comes from."""

from collections.abc import Mapping
from typing import Any

from controller.api.models.candidates import CandidateOut, LineageOut, PatchOut
from controller.api.problems import documented
from controller.api.reading import CandidateId, Reader, TheService, candidate_named
from controller.api.routing import new_router
from controller.documents.candidates import candidate_document, lineage_document
from controller.documents.finite import flagged
from controller.documents.patches import patch_document
from ledger import lineage as origins
from ledger import reads, summaries

router = new_router("candidates")


@router.get("/candidates/{candidate}", response_model=CandidateOut, responses=documented(404))
def show_candidate(_: Reader, service: TheService, candidate: CandidateId) -> dict[str, Any]:
    """A candidate, every execution of it, and what was made of its promoted model."""
    with service.ledger.read() as session:
        found = candidate_named(session, candidate)
        made = reads.list_conversions(session, candidate_id=found.id)
        trials = summaries.trials_of(session, found.id)
        return flagged(candidate_document(found, trials, made))


@router.get(
    "/candidates/{candidate}/lineage", response_model=LineageOut, responses=documented(404)
)
def show_lineage(_: Reader, service: TheService, candidate: CandidateId) -> dict[str, Any]:
    """What a candidate was made of, its trials, scores, families and promotions."""
    with service.ledger.read() as session:
        found = candidate_named(session, candidate)
        return flagged(lineage_document(found.id, origins.lineage(session, found.id)))


@router.get("/candidates/{candidate}/patch", response_model=PatchOut, responses=documented(404))
def show_patch(_: Reader, service: TheService, candidate: CandidateId) -> dict[str, Any]:
    """What a candidate changes of its parent's source, each file before and after."""
    source = None
    with service.ledger.read() as session:
        found = candidate_named(session, candidate)
        study = reads.get_study(session, found.study_id)
        if found.parent_id is not None:
            source = reads.get_candidate(session, found.parent_id).source_digest
    if source is None:
        program = study.spec.get("program")
        named = program.get("source") if isinstance(program, Mapping) else None
        source = named if isinstance(named, str) else None
    return patch_document(service.store, found, source)
