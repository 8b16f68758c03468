"""Models: the names under which candidates are promoted, and who had them when."""

from typing import Annotated, Any

from fastapi import Path

from controller.api.models.candidates import IncumbentOut
from controller.api.models.promotions import ModelsOut
from controller.api.models.wire import Page
from controller.api.problems import documented
from controller.api.reading import LONGEST_NAME, Cursor, Limit, Reader, TheService, place_of
from controller.api.routing import new_router
from controller.documents.candidates import incumbent_document
from controller.documents.promotions import model_document
from ledger import family_pages
from ledger.errors import NotFound

router = new_router("models")

ModelName = Annotated[
    str, Path(max_length=LONGEST_NAME, description="A name under promotion.model of a study")
]


@router.get("/models", response_model=ModelsOut)
def list_models(_: Reader, service: TheService) -> dict[str, Any]:
    """Every model that a study promotes to, with who has it now."""
    with service.ledger.read() as session:
        return {"items": [model_document(found) for found in family_pages.list_models(session)]}


@router.get(
    "/models/{model}/incumbents", response_model=Page[IncumbentOut], responses=documented(404)
)
def list_incumbents(
    _: Reader,
    service: TheService,
    model: ModelName,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """The history of a model's pointer, the newest first."""
    with service.ledger.read() as session:
        found = []
        if "\0" not in model:
            found = family_pages.page_of_incumbents(
                session, model, before=place_of(cursor), limit=limit + 1
            )
    if not found and cursor is None:
        raise NotFound(f"nothing was promoted as {model!r} yet")
    more = str(found[limit - 1].seq) if len(found) > limit else None
    items = [incumbent_document(incumbent) for incumbent in found[:limit]]
    return {"items": items, "next_cursor": more}
