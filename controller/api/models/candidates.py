"""Candidates, their lineage, replay families and incumbents on the wire."""

from typing import Literal

from pydantic import Field, JsonValue

from controller.api.models.conversions import ConversionOut
from controller.api.models.trials import TrialOut
from controller.api.models.wire import DIGEST, ISO, Flagged, Iso, Number, Out, Scalar, example
from ledger.states import CandidateState, FamilyState, Reason


class CandidateBest(Out):
    """The best complete search trial and its candidate."""

    model_config = example(
        {
            "trial": "st-7f3a-t12",
            "number": 12,
            "candidate": "st-7f3a-c12",
            "value": 0.71,
            "kept": True,
            "params": {"learning_rate": 0.0003},
        }
    )
    trial: str
    number: int
    candidate: str
    value: Number
    kept: bool
    params: dict[str, Scalar | None]


class CandidateOut(Flagged):
    """A candidate with every execution of it."""

    model_config = example(
        {
            "candidate": "st-7f3a-c12",
            "study": "st-7f3a",
            "digest": DIGEST,
            "state": "kept",
            "params": {"learning_rate": 0.0003},
            "parent": None,
            "proposer": "tpe",
            "rationale": "",
            "source": None,
            "patch": None,
            "trials": [],
            "conversions": [],
        }
    )
    candidate: str
    study: str
    digest: str
    state: CandidateState
    params: dict[str, Scalar | None]
    parent: str | None
    proposer: str
    rationale: str
    source: str | None
    patch: str | None
    trials: list[TrialOut]
    conversions: list[ConversionOut]


class NodeOut(Out):
    """One thing a candidate was made of or became."""

    model_config = example(
        {
            "kind": "trial",
            "id": "st-7f3a-t12",
            "came_from": ["st-7f3a-c12"],
            "facts": {"number": 12},
        }
    )
    kind: Literal[
        "study",
        "input",
        "candidate",
        "trial",
        "artifact",
        "evaluation",
        "family",
        "promotion",
        "conversion",
    ]
    id: str
    came_from: list[str]
    facts: dict[str, JsonValue]


class LineageOut(Flagged):
    """Each node after those that it came from."""

    model_config = example({"candidate": "st-7f3a-c12", "nodes": []})
    candidate: str
    nodes: list[NodeOut]


class PatchOut(Out):
    """What a candidate changes of its parent's source, file by file."""

    model_config = example(
        {
            "candidate": "st-7f3a-c12",
            "parent": "st-7f3a-c9",
            "patch": "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-a\n+b\n",
            "files": [
                {
                    "path": "train.py",
                    "added": 1,
                    "removed": 1,
                    "before": "a\n",
                    "after": "b\n",
                    "is_whole": True,
                }
            ],
        }
    )
    candidate: str
    parent: str | None
    patch: str | None
    files: list["PatchedFile"]


class PatchedFile(Out):
    """One file before and after."""

    model_config = example(
        {
            "path": "train.py",
            "added": 1,
            "removed": 1,
            "before": "a\n",
            "after": "b\n",
            "is_whole": True,
        }
    )
    path: str
    added: int
    removed: int
    before: str | None = Field(description="Null: no longer stored, or not a text.")
    after: str | None
    is_whole: bool = Field(description="False: cut off because the file is very long.")


class FamilyOut(Flagged):
    """Winners replayed together with the incumbent, and what the gate computed."""

    model_config = example(
        {
            "family": "st-7f3a-f1",
            "number": 1,
            "state": "promoted",
            "reason": "promoted",
            "model": "tiny-arithmetic",
            "candidates": ["st-7f3a-c12"],
            "incumbent": "st-7f3a-c0",
            "pool": ["st-7f3a-t0"],
            "profile": {"name": "quick", "alpha": 0.05},
            "evidence": {"gain": 0.06, "ci95": [0.02, 0.1]},
            "created_at": ISO,
            "ended_at": ISO,
        }
    )
    family: str
    number: int
    state: FamilyState
    reason: Reason | None
    model: str
    candidates: list[str]
    incumbent: str
    pool: list[str] = Field(description="Trials of the incumbent.")
    profile: dict[str, JsonValue]
    evidence: dict[str, JsonValue]
    created_at: Iso
    ended_at: Iso | None


INCUMBENT: dict[str, JsonValue] = {
    "model": "tiny-arithmetic",
    "seq": 3,
    "candidate": "st-7f3a-c12",
    "study": "st-7f3a",
    "family": "st-7f3a-f1",
    "approver": "gate",
    "note": "",
    "rolled_back_to": None,
    "at": ISO,
}


class IncumbentOut(Out):
    """One position of a model's pointer."""

    model_config = example(INCUMBENT)
    model: str
    seq: int
    candidate: str
    study: str
    family: str | None
    approver: str
    note: str = Field(description="What the approver said.")
    rolled_back_to: int | None = Field(
        description="The earlier position whose candidate has the pointer again; null for a "
        "promotion."
    )
    at: Iso
