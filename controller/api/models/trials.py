"""Trials on the wire: rows of the list, one with all that belongs to it, its values, its logs."""

from typing import Literal

from pydantic import Field, JsonValue

from controller.api.models.common import (
    DIGEST,
    ISO,
    Flagged,
    Iso,
    NonFinite,
    Number,
    Out,
    Page,
    Scalar,
    example,
)
from ledger.records import ArtifactRole, AttemptKind, Split, TrialKind, Verdict
from ledger.states import AttemptState, Reason, TrialState

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


class AttemptOut(Flagged):
    """One process started for a trial."""

    model_config = example(
        {
            "id": "st-7f3a-t12-train0",
            "kind": "train",
            "index": 0,
            "split": None,
            "state": "collected",
            "reason": None,
            "detail": "",
            "target": "bubblewrap",
            "host": "node1",
            "exit_code": 0,
            "timeout_s": 1800.0,
            "wall_s": 55.0,
            "cpu_s": 50.0,
            "max_rss_bytes": 104857600,
            "started_at": ISO,
            "ended_at": ISO,
        }
    )
    id: str
    kind: AttemptKind
    index: int
    split: Split | None
    state: AttemptState
    reason: Reason | None
    detail: str
    target: str
    host: str
    exit_code: int | None = Field(description="Negative: the signal that ended it.")
    timeout_s: Number
    wall_s: Number
    cpu_s: Number
    max_rss_bytes: int | None
    started_at: Iso | None
    ended_at: Iso | None


class EvaluationOut(Out):
    """Scores of one split, as a fresh process read them from the stored artifact."""

    model_config = example(
        {
            "split": "search",
            "value": 0.71,
            "scores": {"exact_match": 0.71},
            "items": 200,
            "bundle": DIGEST,
            "artifact": DIGEST,
            "attempt": "st-7f3a-t12-search",
        }
    )
    split: Split
    value: Number
    scores: dict[str, Number]
    items: int = Field(description="How many items were scored singly; 0 where it says none.")
    bundle: str
    artifact: str
    attempt: str


class ArtifactOut(Out):
    """What an attempt left in the store."""

    model_config = example(
        {
            "role": "model",
            "digest": DIGEST,
            "attempt": "st-7f3a-t12-train0",
            "files": 3,
            "size_bytes": 10485760,
        }
    )
    role: ArtifactRole
    digest: str
    attempt: str
    files: int
    size_bytes: int


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


class ArtifactsOut(Out):
    """What a trial's attempts left in the store."""

    model_config = example({"trial": "st-7f3a-t12", "items": []})
    trial: str
    items: list["ArtifactListing"]


class ArtifactListing(ArtifactOut):
    """An artifact with its files, as far as they are listed."""

    model_config = example(
        {
            "role": "model",
            "digest": DIGEST,
            "attempt": "st-7f3a-t12-train0",
            "files": 1,
            "size_bytes": 12,
            "listed": [{"path": "weights.bin", "size_bytes": 12, "digest": DIGEST}],
            "is_listed_whole": True,
            "is_stored": True,
        }
    )
    listed: list["FileOut"]
    is_listed_whole: bool
    is_stored: bool = Field(description="False: it was dropped, or is damaged.")


class FileOut(Out):
    """A file of a tree."""

    model_config = example({"path": "weights.bin", "size_bytes": 12, "digest": DIGEST})
    path: str
    size_bytes: int
    digest: str


class LogsOut(Out):
    """Which logs a trial has."""

    model_config = example(
        {
            "trial": "st-7f3a-t12",
            "items": [
                {
                    "attempt": "st-7f3a-t12-train0",
                    "kind": "train",
                    "split": None,
                    "state": "collected",
                    "size_bytes": 4096,
                    "is_here": True,
                }
            ],
        }
    )
    trial: str
    items: list["LogListed"]


class LogListed(Out):
    """The log of one attempt."""

    model_config = example(
        {
            "attempt": "st-7f3a-t12-train0",
            "kind": "train",
            "split": None,
            "state": "collected",
            "size_bytes": 4096,
            "is_here": True,
        }
    )
    attempt: str
    kind: AttemptKind
    split: Split | None
    state: AttemptState
    size_bytes: int
    is_here: bool = Field(description="False: no longer kept, or on a machine this one is not.")


class LogOut(Out):
    """A range of a log as safe text: control characters are written out."""

    model_config = example(
        {
            "attempt": "st-7f3a-t12-train0",
            "offset": 0,
            "next_offset": 12,
            "size_bytes": 4096,
            "text": "step 1 done\\n",
            "is_over": False,
        }
    )
    attempt: str
    offset: int = Field(description="Byte at which `text` begins.")
    next_offset: int = Field(description="Where to go on reading.")
    size_bytes: int = Field(description="How long the log is now.")
    text: str
    is_over: bool = Field(description="Nothing will be added: the attempt ended, all is read.")


__all__ = [
    "ArtifactListing",
    "ArtifactOut",
    "ArtifactsOut",
    "AttemptOut",
    "CurveOut",
    "DecisionOut",
    "EvaluationOut",
    "FileOut",
    "LatestOut",
    "LogListed",
    "LogOut",
    "LogsOut",
    "NonFinite",
    "Outcome",
    "TrialDetailOut",
    "TrialListed",
    "TrialOut",
    "TrialsPage",
    "ValuesOut",
]
