"""Plans: a study file checked and priced, rollouts sized. Nothing runs, no file is opened."""

from typing import Annotated, Any, Final

from fastapi import Depends
from pydantic import JsonValue

from controller.api.access import Principal
from controller.api.models.plans import (
    CheckedStudy,
    PlanOut,
    RolloutAnswer,
    RolloutQuestion,
    StudyToCheck,
)
from controller.api.mutations import repeatable
from controller.api.reading import Reader
from controller.api.routing import new_router
from controller.api.tokens import Scope
from controller.decisions.pricing import check_price, price_study
from controller.documents.finite import flagged
from controller.documents.plan_system import Rates, system_of
from controller.documents.plans import plan_document
from controller.spec.errors import StudyRefused
from controller.spec.loading import json_schema, parse_study
from inner_trials.plan import rollout_gpu_floor
from ledger.errors import InvalidInput
from ledger.records import Json

router = new_router("plans")

Asker = Annotated[Principal, Depends(repeatable(Scope.READ))]

MOST_PROBLEMS: Final = 100


@router.get("/schema", response_model=dict[str, JsonValue])
def show_schema(_: Reader) -> dict[str, Json]:
    """The JSON Schema of a study file as this server reads it, for editors."""
    return json_schema()


@router.post("/plans/validate", response_model=CheckedStudy)
def validate(_: Asker, body: StudyToCheck) -> dict[str, Any]:
    """Everything that is wrong with a study file; that its files exist is not checked."""
    try:
        spec = parse_study(body.study)
    except StudyRefused as refused:
        problems = [
            {"field": found.field, "detail": str(found)}
            for found in refused.problems[:MOST_PROBLEMS]
        ]
        return flagged({"valid": False, "name": None, "problems": problems})
    return {"valid": True, "name": spec.name, "problems": []}


@router.post("/plans/study", response_model=PlanOut)
def plan_study(_: Asker, body: StudyToCheck) -> dict[str, Any]:
    """What a valid study file implies, and the price of the whole study: baselines, search and
    replays in trials and hours, under each promotion profile."""
    spec = parse_study(body.study)
    given = body.rollouts
    rates = Rates(
        prompts=None if given is None else given.prompts,
        average_tokens=None if given is None else given.average_tokens,
        tokens_per_second=None if given is None else given.tokens_per_second,
        window_s=None if given is None else given.window_s,
    )
    system = system_of(spec, None, rates)
    check_price(spec, trial_wall_s=body.trial_wall_s)
    price = price_study(spec, trial_wall_s=body.trial_wall_s)
    return flagged(plan_document(spec, price, system))


@router.post("/plans/rollout-gpus", response_model=RolloutAnswer)
def size_rollouts(_: Asker, body: RolloutQuestion) -> dict[str, Any]:
    """How many GPUs generate one update's rollouts within a time, at least."""
    try:
        gpus = rollout_gpu_floor(
            body.prompts,
            body.group_size,
            body.average_tokens,
            body.tokens_per_second,
            body.window_s,
        )
    except ValueError as error:
        raise InvalidInput(f"rollout sizing: {error}") from None
    return {"gpus": gpus, "tokens": body.prompts * body.group_size * body.average_tokens}
