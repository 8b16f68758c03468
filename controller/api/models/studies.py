"""Studies on the wire: rows of the list, one with everything about it, its file and revisions."""

from typing import Literal

from pydantic import Field, JsonValue

from controller.api.models.attempts import AttemptOut
from controller.api.models.candidates import CandidateBest, FamilyOut, IncumbentOut
from controller.api.models.sharing import ShareOut
from controller.api.models.study_parts import (
    BaselineOut,
    BudgetOut,
    HeadOut,
    LastEventOut,
    ModelUseOut,
    NetworkOut,
    ObjectiveOut,
    PendingCommandOut,
    PromotionBrief,
    TimingsOut,
)
from controller.api.models.wire import DIGEST, ISO, Flagged, Iso, Number, Out, Scalar, example
from ledger.records import Direction
from ledger.states import Reason, StudyState

BudgetName = Literal["trials", "wall_s", "gpu_s", "llm_tokens", "llm_cost_usd"]
StateCounts = dict[
    Literal[
        "proposed",
        "running",
        "evaluating",
        "deciding",
        "complete",
        "pruned",
        "failed",
        "cancelled",
    ],
    int,
]


class StudyListed(Flagged):
    """A study as a row of the list."""

    model_config = example(
        {
            "study": "st-7f3a",
            "name": "arithmetic-grpo",
            "state": "running",
            "reason": None,
            "metric": "exact_match",
            "direction": "maximize",
            "best_value": 0.71,
            "trials": {"complete": 11, "running": 1},
            "total": 12,
            "budgets": {"trials": {"limit": 40, "spent": 12, "reserved": 0, "overrun": 0}},
            "last_event": {"seq": 311, "kind": "trial_decided", "at": ISO},
            "submitted_at": ISO,
            "ended_at": None,
            "worker": "host:4711",
        }
    )
    study: str
    name: str
    state: StudyState
    reason: Reason | None
    metric: str
    direction: Direction
    best_value: Number
    trials: StateCounts = Field(description="By state; states without any are absent.")
    total: int
    budgets: dict[BudgetName, BudgetOut]
    last_event: LastEventOut | None
    submitted_at: Iso
    ended_at: Iso | None
    worker: str | None


class StudyOut(Flagged):
    """One study with everything about it but its trials."""

    model_config = example(
        {
            "study": "st-7f3a",
            "name": "arithmetic-grpo",
            "state": "running",
            "reason": None,
            "detail": "",
            "paused_by": None,
            "objective": {"metric": "exact_match", "direction": "maximize"},
            "best": None,
            "baseline": {"values": [0.42, 0.44], "mean": 0.43},
            "noise_floor": 0.01,
            "leader": None,
            "promotion": None,
            "counts": {"search": {"kept": 1, "running": 1}, "total": 2},
            "budgets": {},
            "network": None,
            "timings": TimingsOut.model_config["json_schema_extra"]["examples"][0],  # type: ignore[index]  # an example has them
            "worker": "host:4711",
            "bundle": DIGEST,
            "head": {"seq": 311, "digest": DIGEST},
            "families": [],
            "incumbents": [],
            "pending_commands": [],
            "model_use": None,
            "revisions": [],
            "share": {"weight": 1.0, "priority": 0, "holds": [], "waits": None},
            "prepare": [],
        }
    )
    study: str
    name: str
    state: StudyState
    reason: Reason | None
    detail: str
    paused_by: Literal["operator", "condition"] | None
    objective: ObjectiveOut
    best: CandidateBest | None
    baseline: BaselineOut
    noise_floor: Number
    leader: str | None = Field(description="Candidate that was kept last.")
    promotion: PromotionBrief | None
    counts: dict[str, dict[str, int] | int] = Field(
        description="By kind, then outcome (kept, discarded, served, measured, or a state); "
        "and `total`."
    )
    budgets: dict[BudgetName, BudgetOut]
    network: NetworkOut | None
    timings: TimingsOut
    worker: str | None
    bundle: str = Field(description="Digest of the evaluator; empty in `reported` mode.")
    head: HeadOut
    families: list[FamilyOut]
    incumbents: list[IncumbentOut]
    pending_commands: list[PendingCommandOut]
    model_use: ModelUseOut | None
    revisions: list["SpecRevision"] = Field(description="What was changed of the study file.")
    share: ShareOut
    prepare: list[AttemptOut]


class SpecRevision(Out):
    """A change of what may change after the start."""

    model_config = example(
        {
            "seq": 200,
            "at": ISO,
            "actor": "token:ci",
            "changes": [{"field": "budget.trials", "before": 20.0, "after": 40.0}],
        }
    )
    seq: int = Field(description="The entry that records it.")
    at: Iso
    actor: str
    changes: list["SpecChange"]


class SpecChange(Out):
    """One field of the study file before and after."""

    model_config = example({"field": "stop.no_improvement", "before": None, "after": 30})
    field: str = Field(
        description="`parallel`, `weight`, `priority`, `stop.FIELD`, or `budget.RESOURCE` in the "
        "resource's unit."
    )
    before: Scalar | None
    after: Scalar | None


class SpecOut(Flagged):
    """The study file as accepted (paths are digests), and what was changed since."""

    model_config = example(
        {
            "study": "st-7f3a",
            "digest": DIGEST,
            "spec": {"name": "arithmetic-grpo"},
            "inputs": {"train": DIGEST},
            "bundle": DIGEST,
            "revisions": [],
        }
    )
    study: str
    digest: str
    spec: dict[str, JsonValue]
    inputs: dict[str, str] = Field(description="Mount name to tree digest.")
    bundle: str
    revisions: list[SpecRevision]
