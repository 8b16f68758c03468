"""Promotions and models on the wire."""

from pydantic import Field, JsonValue

from controller.api.models.candidates import FamilyOut
from controller.api.models.trials import Outcome
from controller.api.models.wire import ISO, Number, Out, Scalar, example
from ledger.records import Split
from ledger.states import Reason, TrialState

_FAMILY: dict[str, JsonValue] = {
    "family": "st-7f3a-f1",
    "number": 1,
    "state": "awaiting_approval",
    "reason": None,
    "model": "tiny-arithmetic",
    "candidates": ["st-7f3a-c12"],
    "incumbent": "st-7f3a-c0",
    "pool": ["st-7f3a-t0"],
    "profile": {"name": "quick", "alpha": 0.05},
    "evidence": {"gain": 0.06, "ci95": [0.02, 0.1]},
    "created_at": ISO,
    "ended_at": None,
    "study": "st-7f3a",
    "study_name": "arithmetic-grpo",
}


class PromotionOut(FamilyOut):
    """A family as a row of the list of promotions."""

    model_config = example(_FAMILY)
    study: str
    study_name: str


class RunOut(Out):
    """One run that a family was judged by."""

    model_config = example(
        {
            "trial": "st-7f3a-t40",
            "number": 40,
            "candidate": "st-7f3a-c12",
            "stage": "confirm:1",
            "is_pool": False,
            "state": "complete",
            "outcome": "measured",
            "reason": "measured",
            "values": {"holdout_a": 0.7},
            "scores": {"holdout_a": {"exact_match": 0.7}},
        }
    )
    trial: str
    number: int
    candidate: str
    stage: str | None
    is_pool: bool = Field(description="A run of the incumbent, to compare with.")
    state: TrialState
    outcome: Outcome
    reason: Reason | None
    values: dict[Split, Number]
    scores: dict[Split, dict[str, Number]]


class PromotionDetail(PromotionOut):
    """A family with every run it was judged by."""

    model_config = example(
        {
            **_FAMILY,
            "objective": {"metric": "exact_match", "direction": "maximize"},
            "params": {"st-7f3a-c12": {"learning_rate": 0.0003}},
            "runs": [],
        }
    )
    objective: dict[str, JsonValue]
    params: dict[str, dict[str, Scalar | None]] = Field(
        description="Of each candidate and of the incumbent, by id."
    )
    runs: list[RunOut]
