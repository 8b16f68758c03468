"""A study's proposer: what its arms brought, and what it asked of language models."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import Path, Request

from controller.api.models.proposer import ModelCallListed, ModelCallOut, ProposerOut
from controller.api.models.wire import Page
from controller.api.problems import documented
from controller.api.reading import (
    LARGEST_NUMBER,
    Cursor,
    Limit,
    Reader,
    StudyName,
    TheService,
    place_of,
    study_named,
)
from controller.api.routes.plots import plot_data_of
from controller.api.routing import new_router
from controller.documents.finite import flagged
from controller.documents.model_calls import call_document, model_document
from controller.documents.studies import metric_of
from controller.documents.times import iso
from ledger.entries import ProposalsMade, ProposerWaits
from ledger.entry_pages import page_of_entries
from ledger.errors import NotFound
from ledger.model_call_pages import find_call, page_of_calls
from ledger.model_reads import model_use
from ledger.reads import maximizes
from ledger.records import EntryRecord, Json

router = new_router("proposer")

CALLS_SHOWN: Final = 50


@router.get(
    "/studies/{study}/proposer", response_model=ProposerOut, responses=documented(404, 409)
)
def show_proposer(
    request: Request, _: Reader, service: TheService, study: StudyName
) -> dict[str, Any]:
    """Who proposes: each arm's share of the improvements, its outcomes and how its values moved;
    the latest calls; what language models cost."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        arms = plot_data_of(request).arms(session, found)
        use = model_use(session, found.id)
        kinds = (ProposalsMade.kind,)
        calls = page_of_entries(session, found.id, kinds=kinds, descending=True, limit=CALLS_SHOWN)
        waits = page_of_entries(
            session, found.id, kinds=(ProposerWaits.kind,), descending=True, limit=1
        )
    section = found.spec.get("proposer")
    stated: Mapping[str, Json] = section if isinstance(section, Mapping) else {}
    options = stated.get("options")
    return flagged(
        {
            "study": found.id,
            "name": str(stated.get("name", "")),
            "options": dict(options) if isinstance(options, Mapping) else {},
            "metric": metric_of(found),
            "direction": "maximize" if maximizes(found) else "minimize",
            "arms": arms,
            "model_use": None if use is None else model_document(use),
            "calls": [_call(entry) for entry in calls],
            "waits": (str(waits[0].payload["detail"]) or None) if waits else None,
        }
    )


def _call(entry: EntryRecord) -> dict[str, Json]:
    names = ("first_number", "asked", "given", "watermark", "seed")
    return {
        "seq": entry.seq,
        "at": iso(entry.at),
        **{name: entry.payload[name] for name in names},
    }


@router.get(
    "/studies/{study}/model-calls",
    response_model=Page[ModelCallListed],
    responses=documented(404, 409),
)
def list_calls(
    _: Reader,
    service: TheService,
    study: StudyName,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """Requests to language models, the newest first; without their words."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        calls = page_of_calls(session, found.id, before=place_of(cursor), limit=limit + 1)
    more = str(calls[limit - 1].number) if len(calls) > limit else None
    return {"items": [call_document(call) for call in calls[:limit]], "next_cursor": more}


@router.get(
    "/studies/{study}/model-calls/{number}",
    response_model=ModelCallOut,
    responses=documented(404, 409),
)
def show_call(
    _: Reader,
    service: TheService,
    study: StudyName,
    number: Annotated[int, Path(ge=0, le=LARGEST_NUMBER, description="Counts the study's calls")],
) -> dict[str, Any]:
    """What a language model was told, and what it answered."""
    with service.ledger.read() as session:
        found = study_named(session, study)
        call = find_call(session, found.id, number)
    if call is None:
        raise NotFound(f"study {found.name} made no model call {number}")
    words = {"request": call.request, "response": call.response}
    return flagged({**call_document(call.call), **words})
