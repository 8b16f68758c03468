"""Trials for outside workers: what they ask for, report and tell."""

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from controller.api.models.wire import DIGEST, Out, example

WORD = Literal["nan", "inf", "-inf"]
LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
"""Of a metric's name: what the reader of reports skips is refused here."""


def _wanted(value: JsonValue) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [value]})


class Ask(BaseModel):
    """Who asks: the same client gets the trial that it has until it told its end."""

    model_config = _wanted({"client": "worker-7"})
    client: str = Field(min_length=1, max_length=100)


class Handed(Out):
    """A trial for one outside worker."""

    model_config = example(
        {
            "trial": "s1a2b3c4d5-t0007",
            "attempt": "arl-s1a2b3c4d5-t0007.train-0",
            "token": "arlt_…",
            "params": {"learning_rate": 0.0003},
            "seed": 1234,
            "kind": "search",
            "document": {"format": 1},
            "argv": ["python", "train.py"],
            "inputs": {"data": DIGEST},
            "timeout_s": 1800.0,
            "lease_s": 120.0,
        }
    )
    trial: str
    attempt: str
    token: str = Field(description="Fences what is told of the trial: header `Trial-Token`.")
    params: dict[str, JsonValue]
    seed: int
    kind: str
    document: dict[str, JsonValue] = Field(description="What a program of ARL's own would read.")
    argv: list[str]
    inputs: dict[str, str] = Field(description="Mount name to tree digest.")
    timeout_s: float
    lease_s: float = Field(
        description="Longest silence between two reports; after it the trial is another's."
    )


class NotReady(Out):
    """No trial is ready; ask again."""

    model_config = example({"retry_after_s": 1.0})
    retry_after_s: float


class Value(BaseModel):
    """A number reported while the trial runs."""

    model_config = _wanted({"step": 10, "metric": "loss", "value": 0.25})
    step: int = Field(ge=0, le=2**53)
    metric: str = Field(min_length=1, max_length=200, pattern=LINE)
    value: float | WORD

    def line(self) -> dict[str, Any]:
        """As a program appends it to its reports."""
        return {"step": self.step, "metric": self.metric, "value": self.value}


class Report(BaseModel):
    """What happened since the last report; an empty one only says that the worker lives."""

    model_config = _wanted(
        {"values": [{"step": 10, "metric": "loss", "value": 0.25}], "log": "epoch 1\n"}
    )
    number: int | None = Field(
        default=None,
        ge=0,
        le=2**53,
        description="Rising from report to report of a trial: one that is sent again counts once.",
    )
    values: list[Value] = Field(default=[], max_length=10_000)
    log: str | None = Field(default=None, max_length=1_000_000)


class Heard(Out):
    """Whether the trial should save and end."""

    model_config = example({"should_stop": False})
    should_stop: bool


class Told(BaseModel):
    """How a trial ended."""

    model_config = _wanted({"outcome": "complete", "artifact": DIGEST})
    outcome: Literal["complete", "stopped", "failed"]
    artifact: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description="Tree digest of the model, sent before; the frozen evaluator scores it.",
    )
    metrics: dict[str, float | WORD] = Field(
        default={},
        max_length=200,
        description="Last values. In `reported` mode the objective's is believed.",
    )
    step: int = Field(default=0, ge=0, le=2**53)
    exit_code: int | None = Field(default=None, ge=1, le=255)
    detail: str = Field(default="", max_length=2000)

    @model_validator(mode="after")
    def _names(self) -> "Told":
        for name in self.metrics:
            if not 0 < len(name) <= 200 or re.fullmatch(LINE, name) is None:
                raise ValueError(
                    f"metrics: {name[:80]!r}: write a name of 1 to 200 characters, none of them a "
                    "control character or the end of a line"
                )
        return self


class Accepted(Out):
    """What was told is recorded; told again, it was before."""

    model_config = example({"trial": "s1a2b3c4d5-t0007", "repeated": False})
    trial: str
    repeated: bool


class InputFile(Out):
    """One file of an input."""

    model_config = example({"path": "train.jsonl", "size": 81920, "digest": DIGEST})
    path: str
    size: int
    digest: str


class InputTree(Out):
    """The files of an input."""

    model_config = example({"files": [{"path": "train.jsonl", "size": 81920, "digest": DIGEST}]})
    files: list[InputFile]
