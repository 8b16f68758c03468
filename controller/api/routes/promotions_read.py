"""Promotions: families of replays, with the evidence that the gate computed."""

from typing import Annotated, Any

from fastapi import Query

from controller.api.models.promotions import PromotionDetail, PromotionOut
from controller.api.models.wire import Page
from controller.api.problems import documented
from controller.api.reading import (
    Cursor,
    FamilyId,
    Limit,
    Reader,
    TheService,
    family_named,
    storable_text,
    study_named,
)
from controller.api.routing import new_router
from controller.documents.finite import flagged
from controller.documents.promotions import evidence_document, promotion_document
from ledger import family_pages, reads
from ledger.states import FamilyState

router = new_router("promotions")


@router.get("/promotions", response_model=Page[PromotionOut], responses=documented(404, 409))
def list_promotions(
    _: Reader,
    service: TheService,
    state: Annotated[list[FamilyState] | None, Query(description="Only these states")] = None,
    model: Annotated[str | None, Query(max_length=200, description="Only this model's")] = None,
    study: Annotated[str | None, Query(max_length=200, description="Only this study's")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """Families of replays in every state, the newest first."""
    with service.ledger.read() as session:
        page = family_pages.page_of_families(
            session,
            states=state,
            model=storable_text(model, "model"),
            study_id=None if study is None else study_named(session, study).id,
            cursor=cursor,
            limit=limit,
        )
        names = family_pages.study_names(session, [family.study_id for family in page.items])
    items = [flagged(promotion_document(f, names.get(f.study_id, ""))) for f in page.items]
    return {"items": items, "next_cursor": page.next_cursor}


@router.get("/promotions/{family}", response_model=PromotionDetail, responses=documented(404))
def show_promotion(_: Reader, service: TheService, family: FamilyId) -> dict[str, Any]:
    """A family with every run it was judged by, and the incumbent's pool."""
    with service.ledger.read() as session:
        found = family_named(session, family)
        study = reads.get_study(session, found.study_id)
        runs = family_pages.trials_named(session, found.pool)
        runs += [
            trial
            for trial in family_pages.replays_of(session, found.id)
            if trial.id not in found.pool
        ]
        evaluations = reads.load_evaluations(session, [trial.id for trial in runs])
        ids = {*found.candidates, found.incumbent_id}
        candidates = reads.find_candidates(session, ids)
        return flagged(evidence_document(found, study, runs, evaluations, candidates))
