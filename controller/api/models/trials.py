"""Trials on the wire: rows of the list, one with all that belongs to it, its values."""

from typing import Literal

from pydantic import Field, JsonValue

from controller.api.models.attempts import ArtifactOut, AttemptOut, EvaluationOut
from controller.api.models.wire import (
    ISO,
    Flagged,
    Iso,
    Number,
    Out,
    Page,
    Scalar,
    example,
)
from ledger.records import Split, TrialKind, Verdict
from ledger.states import Reason, TrialState

Outcome = Literal[
    "kept",
    "discarded",
    "served",
    "measured",
    "proposed",
    "running",
    "evaluating",
    "deciding",
    "pruned",
    "failed",
    "cancelled",
]

_TRIAL: dict[str, JsonValue] = {
    "id": "st-7f3a-t12",
    "study": "st-7f3a",
    "number": 12,
    "kind": "search",
    "state": "complete",
    "outcome": "kept",
    "reason": "better",
    "detail": "",
    "value": 0.71,
    "candidate": "st-7f3a-c12",
    "params": {"learning_rate": 0.0003},
    "seed": 977,
    "watermark": 10,
    "finish_seq": 12,
    "splits": ["search"],
    "family": None,
    "stage": None,
    "created_at": ISO,
    "started_at": ISO,
    "ended_at": ISO,
    "wall_s": 61.5,
}


class TrialOut(Flagged):
    """One execution of a candidate."""

    model_config = example(_TRIAL)
    id: str
    study: str
    number: int
    kind: TrialKind
    state: TrialState
    outcome: Outcome = Field(description="How it ended, or the state it is in.")
    reason: Reason | None
    detail: str
    value: Number = Field(description="The objective on the search split.")
    candidate: str
    params: dict[str, Scalar | None]
    seed: int
    watermark: int = Field(description="How many trials had finished when it was proposed.")
    finish_seq: int | None
    splits: list[Split]
    family: str | None
    stage: str | None
    created_at: Iso
    started_at: Iso | None
    ended_at: Iso | None
    wall_s: Number = Field(description="From its first process to its end, by the server's clock.")


class TrialListed(TrialOut):
    """A trial as a row of the list, with its scores and the last of what it reported."""

    model_config = example(
        {
            **_TRIAL,
            "proposer": "tpe",
            "parent": None,
            "patched": False,
            "attempts": 2,
            "scores": {"exact_match": 0.71},
            "metrics": {"train/loss": 0.8},
        }
    )
    proposer: str
    parent: str | None
    patched: bool = Field(description="Whether the candidate changes its parent's source.")
    attempts: int
    scores: dict[str, Number] = Field(description="On the search split, by metric.")
    metrics: dict[str, Number] = Field(description="The last value it reported, by metric.")


class TrialsPage(Page[TrialListed]):
    """One page of a study's trials."""

    model_config = example({"items": [], "next_cursor": None, "total": 20000})
    total: int | None = Field(description="In all pages; null unless asked for by `count`.")


class DecisionOut(Out):
    """What screening said, and by how much."""

    model_config = example(
        {
            "verdict": "keep",
            "reason": "better",
            "compared_with": "st-7f3a-c9",
            "margin": 0.03,
            "noise_floor": 0.01,
        }
    )
    verdict: Verdict
    reason: Reason
    compared_with: str | None = Field(description="The leader then; null: the baseline.")
    margin: Number
    noise_floor: Number


class LatestOut(Out):
    """The last value of a metric."""

    model_config = example({"metric": "train/loss", "step": 100, "value": 0.8})
    metric: str
    step: int
    value: Number


class TrialDetailOut(TrialOut):
    """A trial with everything that belongs to it but its curves and logs."""

    model_config = example(
        {
            **_TRIAL,
            "attempts": [],
            "evaluations": [],
            "artifacts": [],
            "decision": None,
            "latest": [{"metric": "train/loss", "step": 100, "value": 0.8}],
            "proposer": "llm_diff",
            "parent": "st-7f3a-c9",
            "rationale": "a longer warm-up",
            "patch": None,
            "network": None,
        }
    )
    attempts: list[AttemptOut]
    evaluations: list[EvaluationOut]
    artifacts: list[ArtifactOut]
    decision: DecisionOut | None
    latest: list[LatestOut] = Field(description="By metric.")
    proposer: str
    parent: str | None
    rationale: str
    patch: str | None
    network: dict[str, JsonValue] | None = Field(description="Null where it reaches no host.")


class CurveOut(Out):
    """One metric's reports of a trial, sampled so that every extreme is there."""

    model_config = example(
        {
            "metric": "train/loss",
            "steps": [1, 2, 3],
            "values": [2.1, None, 1.4],
            "non_finite": {"1": "nan"},
            "sampled": False,
            "of": 3,
        }
    )
    metric: str
    steps: list[int]
    values: list[Number]
    non_finite: dict[str, str] = Field(description='Position to "nan", "inf" or "-inf".')
    sampled: bool
    of: int = Field(description="How many there are before sampling.")


class ValuesOut(Out):
    """What a trial reported while it ran."""

    model_config = example(
        {
            "trial": "st-7f3a-t12",
            "metrics": ["train/loss", "eval/acc"],
            "curves": [
                {
                    "metric": "train/loss",
                    "steps": [1, 2, 3],
                    "values": [2.1, None, 1.4],
                    "non_finite": {"1": "nan"},
                    "sampled": False,
                    "of": 3,
                }
            ],
        }
    )
    trial: str
    metrics: list[str] = Field(description="Every metric it reported.")
    curves: list[CurveOut]
