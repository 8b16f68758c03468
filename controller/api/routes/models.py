"""Models: the names under which candidates are promoted, who had them when, and evidence."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends

from controller.api.models.registry import (
    AliasOut,
    AliasWanted,
    ModelDetail,
    ModelsOut,
    NoteWanted,
    PositionDetail,
    PositionOut,
    RollBackWanted,
)
from controller.api.models.wire import Page
from controller.api.mutations import Mutation, mutation
from controller.api.problems import documented
from controller.api.reading import (
    Cursor,
    Limit,
    ModelName,
    PositionNumber,
    Reader,
    TheService,
    named_model,
    place_of,
)
from controller.api.routing import new_router
from controller.api.tokens import Scope
from controller.documents.finite import flagged
from controller.documents.registry import alias_document
from controller.registry import looking
from controller.registry.names import check_alias, check_new_note, check_note
from controller.registry.pointers import add_note, check_standing, roll_back, set_alias
from controller.wiring import Service
from ledger import family_pages, registry_reads
from ledger.database import WriteSession
from ledger.errors import NotFound
from ledger.heads import write_heads
from ledger.records import Incumbent, Json

router = new_router("models")

Promote = Annotated[Mutation, Depends(mutation(Scope.PROMOTE))]


@router.get("/models", response_model=ModelsOut)
def list_models(_: Reader, service: TheService) -> dict[str, Any]:
    """Every model that a study promotes to, with who has it now and what its aliases name."""
    with service.ledger.read() as session:
        return {"items": looking.models_listed(session)}


@router.get("/models/{model}", response_model=ModelDetail, responses=documented(404))
def show_model(_: Reader, service: TheService, model: ModelName) -> dict[str, Any]:
    """One model, with the latest changes of its aliases."""
    with service.ledger.read() as session:
        return looking.model_detail(session, named_model(model))


@router.get(
    "/models/{model}/incumbents", response_model=Page[PositionOut], responses=documented(404)
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
        found = family_pages.page_of_incumbents(
            session, named_model(model), before=place_of(cursor), limit=limit + 1
        )
        if not found and cursor is None:
            raise NotFound(f"nothing was promoted as {model!r} yet")
        items = looking.positions(session, model, found[:limit])
    more = str(found[limit - 1].seq) if len(found) > limit else None
    return {"items": items, "next_cursor": more}


@router.get(
    "/models/{model}/incumbents/{number}",
    response_model=PositionDetail,
    responses=documented(404, 409),
)
def show_incumbent(
    _: Reader, service: TheService, model: ModelName, number: PositionNumber
) -> dict[str, Any]:
    """One position with its lineage, the gate's evidence, its signatures and its model card."""
    with service.ledger.read() as session:
        pointer = registry_reads.get_pointer(session, named_model(model), number)
        return flagged(looking.position_detail(session, pointer))


@router.post(
    "/models/{model}/incumbents/{number}/notes",
    response_model=PositionOut,
    status_code=201,
    responses=documented(404),
)
def note_incumbent(
    change: Promote, model: ModelName, number: PositionNumber, body: NoteWanted
) -> Any:
    """Write down something about a promotion. What was written stays."""
    note = check_new_note(body.note)

    def act(session: WriteSession) -> Mapping[str, Json]:
        pointer = registry_reads.get_pointer(session, named_model(model), number)
        add_note(session, pointer, note=note, actor=change.principal.actor)
        return looking.position(session, pointer)

    return change.run(act, status=201).response()


@router.post(
    "/models/{model}/rollback",
    response_model=PositionOut,
    status_code=201,
    responses=documented(404, 409),
)
def roll_back_model(change: Promote, model: ModelName, body: RollBackWanted) -> Any:
    """Give the pointer to an earlier promotion again, once its artifact was found whole."""
    service, note = change.service, check_note(body.note)
    earlier = change.earlier()
    if earlier is not None:  # by a server that may have died before it wrote down the new heads
        _remember_heads(service)
        return earlier.response()
    target = _standing(service, model, body.to)

    def act(session: WriteSession) -> Mapping[str, Json]:
        actor = change.principal.actor
        moved = roll_back(session, target, expected=body.expected, actor=actor, note=note)
        return looking.position(session, registry_reads.get_pointer(session, model, moved.seq))

    done = change.run(act, status=201)
    _remember_heads(service)
    return done.response()


@router.post(
    "/models/{model}/aliases",
    response_model=AliasOut,
    responses=documented(404, 409),
)
def change_alias(change: Promote, model: ModelName, body: AliasWanted) -> Any:
    """Let an alias name another promotion, or none."""
    service, alias, note = change.service, check_alias(body.alias), check_note(body.note)
    earlier = change.earlier()
    if earlier is not None:
        return earlier.response()
    if body.promotion is not None:
        _standing(service, model, body.promotion)

    def act(session: WriteSession) -> Mapping[str, Json]:
        set_alias(
            session,
            model=named_model(model),
            alias=alias,
            promotion=body.promotion,
            expected=body.expected,
            actor=change.principal.actor,
            note=note,
        )
        found = registry_reads.latest_alias(session, model, alias)
        return {} if found is None else alias_document(found)

    return change.run(act).response()


def _remember_heads(service: Service) -> None:
    """Where the chains end now, outside of the database."""
    with service.ledger.read() as session:
        write_heads(session, service.settings.heads_path)


def _standing(service: Service, model: str, number: int) -> Incumbent:
    """A position whose artifact was read and found whole. Raises NotFound, Conflict."""
    with service.ledger.read() as session:
        pointer = registry_reads.get_pointer(session, named_model(model), number)
    check_standing(service.ledger, service.store, pointer)
    return pointer
