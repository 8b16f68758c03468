"""Studies on the wire: rows of the list, one with everything about it, its file and revisions."""

from typing import Literal

from pydantic import Field, JsonValue

from controller.api.models.candidates import CandidateBest, FamilyOut, IncumbentOut
from controller.api.models.common import DIGEST, ISO, Flagged, Iso, Number, Out, example
from controller.api.models.trials import AttemptOut
from ledger.records import CommandVerb, Direction
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


class ObjectiveOut(Out):
    """What a study is about."""

    model_config = example({"metric": "exact_match", "direction": "maximize"})
    metric: str
    direction: Direction


class BudgetOut(Out):
    """One resource, in its own unit: trials, seconds, tokens, US dollars."""

    model_config = example({"limit": 40.0, "spent": 12.0, "reserved": 2.0, "overrun": 0.0})
    limit: float | None = Field(description="Null: counted, not limited.")
    spent: float
    reserved: float
    overrun: float = Field(description="Measured beyond its reservation and the limit.")


class LastEventOut(Out):
    """The latest link of a study's chain."""

    model_config = example({"seq": 311, "kind": "trial_decided", "at": ISO})
    seq: int
    kind: str
    at: Iso


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


class BaselineOut(Out):
    """The study's own runs of its starting point."""

    model_config = example({"values": [0.42, 0.44], "mean": 0.43})
    values: list[Number]
    mean: Number


class PromotionBrief(Out):
    """What the gate said of the study's last family."""

    model_config = example(
        {
            "model": "tiny-arithmetic",
            "family": "st-7f3a-f1",
            "state": "promoted",
            "reason": "promoted",
            "promoted": True,
            "candidate": "st-7f3a-c9",
            "gain": 0.06,
            "ci95": [0.02, 0.1],
        }
    )
    model: str
    family: str
    state: str
    reason: str | None
    promoted: bool
    candidate: str | None
    gain: JsonValue = None
    ci95: JsonValue = None


class TimingsOut(Out):
    """Moments and durations of a study."""

    model_config = example(
        {
            "submitted_at": ISO,
            "first_attempt_started_at": ISO,
            "first_trial_started_at": ISO,
            "ended_at": None,
            "wall_s": None,
            "active_s": 124.5,
        }
    )
    submitted_at: Iso
    first_attempt_started_at: Iso | None
    first_trial_started_at: Iso | None
    ended_at: Iso | None
    wall_s: Number = Field(description="From its submission to its end.")
    active_s: float = Field(description="Pauses excluded.")


class HeadOut(Out):
    """Where a chain ends."""

    model_config = example({"seq": 311, "digest": DIGEST})
    seq: int
    digest: str


class TallyOut(Out):
    """What was asked of the network."""

    model_config = example({"count": 3, "refused": 1, "sent_bytes": 512, "received_bytes": 10240})
    count: int
    refused: int
    sent_bytes: int
    received_bytes: int


class NetworkOut(TallyOut):
    """The same with its hosts and, of a trial or of the preparing, every request."""

    model_config = example(
        {
            "count": 1,
            "refused": 1,
            "sent_bytes": 0,
            "received_bytes": 0,
            "hosts": {
                "example.org:443": {
                    "count": 1,
                    "refused": 1,
                    "sent_bytes": 0,
                    "received_bytes": 0,
                }
            },
            "requests": [],
        }
    )
    hosts: dict[str, TallyOut]
    requests: list[dict[str, JsonValue]]


class PendingCommandOut(Out):
    """What was asked for and is not carried out yet."""

    model_config = example({"id": 7, "verb": "pause", "actor": "token:ci", "at": ISO})
    id: int
    verb: CommandVerb
    actor: str
    at: Iso


class ModelUseOut(Out):
    """What a study asked of language models, in sums."""

    model_config = example(
        {
            "calls": 12,
            "outcomes": {"answered": 11, "timeout": 1},
            "tokens": 31000,
            "prompt_tokens": 24000,
            "completion_tokens": 7000,
            "cost_usd": 0.12,
            "latency_s": 55.1,
            "malformed": 1,
            "malformed_share": 0.05,
        }
    )
    calls: int
    outcomes: dict[str, int]
    tokens: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_s: float
    malformed: int
    malformed_share: Number = Field(description="Of the search trials; null before the first.")


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
            "head": {"seq": 311, "digest": DIGEST},
            "families": [],
            "incumbents": [],
            "pending_commands": [],
            "model_use": None,
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
    head: HeadOut
    families: list[FamilyOut]
    incumbents: list[IncumbentOut]
    pending_commands: list[PendingCommandOut]
    model_use: ModelUseOut | None
    prepare: list[AttemptOut]


class SpecRevision(Out):
    """A change of what may change after the start."""

    model_config = example(
        {
            "seq": 200,
            "at": ISO,
            "actor": "token:ci",
            "changes": [{"resource": "trials", "before": 20.0, "after": 40.0}],
        }
    )
    seq: int = Field(description="The entry that records it.")
    at: Iso
    actor: str
    changes: list["SpecChange"]


class SpecChange(Out):
    """One limit before and after."""

    model_config = example({"resource": "trials", "before": 20.0, "after": 40.0})
    resource: str
    before: float | None
    after: float | None


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
