"""Studies as they stand: the list, one, and its file with what was changed since."""

from typing import Annotated, Any, Literal

from fastapi import Query, Request

from controller.api.models.studies import SpecOut, StudyListed, StudyOut
from controller.api.models.wire import Page
from controller.api.problems import documented
from controller.api.reading import (
    Cursor,
    Limit,
    Order,
    Reader,
    StudyName,
    TheService,
    storable_text,
    study_named,
)
from controller.api.routing import new_router
from controller.api.tallies import Tallies
from controller.documents.finite import flagged
from controller.documents.studies import row_document, spec_document, whole_document
from ledger import study_pages
from ledger.states import StudyState

router = new_router("studies")


def tallies_of(request: Request) -> Tallies:
    """The app's own."""
    found: Tallies = request.app.state.tallies
    return found


@router.get("/studies", response_model=Page[StudyListed])
def list_studies(
    request: Request,
    _: Reader,
    service: TheService,
    state: Annotated[list[StudyState] | None, Query(description="Only these states")] = None,
    text: Annotated[
        str | None, Query(max_length=200, description="Occurs in the name, or begins the id")
    ] = None,
    sort: Annotated[
        Literal["submitted_at", "name", "state"], Query(description="What they go by")
    ] = "submitted_at",
    order: Order = "desc",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """Studies with their counts, best value, budgets and latest event; the newest first."""
    counted = tallies_of(request)
    with service.ledger.read() as session:
        page = study_pages.page_of_studies(
            session,
            states=state,
            text=storable_text(text, "text"),
            sort=sort,
            descending=order == "desc",
            cursor=cursor,
            limit=limit,
        )
        ids = [study.id for study in page.items]
        budgets = study_pages.budgets_of(session, ids)
        last = study_pages.last_entries(session, ids)
        items = [
            flagged(
                row_document(
                    study,
                    counted.tally(session, study),
                    budgets.get(study.id, ()),
                    last.get(study.id),
                )
            )
            for study in page.items
        ]
    return {"items": items, "next_cursor": page.next_cursor}


@router.get("/studies/{study}", response_model=StudyOut, responses=documented(404, 409))
def show_study(
    request: Request, _: Reader, service: TheService, study: StudyName
) -> dict[str, Any]:
    """How a study stands: counts, best, budgets, gate, what waits for its worker."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        kept = tallies_of(request)
        return flagged(whole_document(session, found, kept.outcomes, kept.network))


@router.get("/studies/{study}/spec", response_model=SpecOut, responses=documented(404, 409))
def show_spec(_: Reader, service: TheService, study: StudyName) -> dict[str, Any]:
    """The study file as accepted (paths are digests), and each change since."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        return flagged(spec_document(session, found))
