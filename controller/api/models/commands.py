"""What is asked of a study, and how the request stands."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from controller.api.models.wire import Out, example
from ledger.records import CommandVerb, Json


def _wanted(value: JsonValue) -> ConfigDict:
    return ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [value]})


class StudyWanted(BaseModel):
    """A study file as JSON; each path in it is `blob:DIGEST` or `blob:DIGEST/FILE`."""

    model_config = _wanted({"study": {"name": "nightly"}, "new": False})
    study: dict[str, JsonValue]
    new: bool = Field(
        default=False, description="Start it although an unfinished study has that name."
    )


class StudySubmittedOut(Out):
    """A study that was stored."""

    model_config = example(
        {
            "study": "s1a2b3c4d5",
            "name": "nightly",
            "bundle": "9f86d081884c7d65",
            "target": "bubblewrap",
            "target_reason": "",
        }
    )
    study: str
    name: str
    bundle: str | None
    target: str
    target_reason: str


class Command(Out):
    """A request to a study; the worker that drives it applies it."""

    model_config = example(
        {
            "command": 7,
            "study": "s1a2b3c4d5",
            "verb": "pause",
            "answer": "applied",
            "detail": "",
            "state": "paused",
            "reason": "paused_by_operator",
        }
    )
    command: int
    study: str
    verb: CommandVerb
    answer: Literal["pending", "applied", "refused"]
    detail: str = Field(description="Why it was refused.")
    state: str = Field(description="The study's, as it is now.")
    reason: str | None


class Nothing(BaseModel):
    """No arguments."""

    model_config = _wanted({})


class ResumeWanted(BaseModel):
    model_config = _wanted({})
    host_gone: str | None = Field(
        default=None,
        max_length=200,
        description="A host that is known to be gone: its attempts are tried again elsewhere.",
    )


class Change(BaseModel):
    """Of a budget, in its own unit: `by` adds, `to` replaces."""

    model_config = _wanted({"by": 20})
    by: float | None = Field(default=None, gt=0, le=1e15)
    to: float | None = Field(default=None, gt=0, le=1e15)

    @model_validator(mode="after")
    def _one(self) -> "Change":
        if (self.by is None) == (self.to is None):
            raise ValueError("write one of by and to")
        return self


class Budgets(BaseModel):
    """Changes of a study's budgets."""

    model_config = _wanted({"trials": {"by": 20}})
    trials: Change | None = None
    wall_s: Change | None = None
    gpu_s: Change | None = None
    llm_tokens: Change | None = None
    llm_cost_usd: Change | None = None

    @model_validator(mode="after")
    def _some(self) -> "Budgets":
        if not self.model_dump(exclude_none=True):
            raise ValueError("write at least one budget, like {'trials': {'by': 20}}")
        return self


class StopChange(BaseModel):
    """Changes of when a study stops looking; what is left out stays, null takes a rule away."""

    model_config = _wanted({"goal": 0.95, "no_improvement": None})
    goal: float | None = None
    no_improvement: int | None = Field(default=None, ge=1)
    failure_rate: float = Field(default=0.5, gt=0, le=1)
    failure_window: int = Field(default=20, ge=1)
    consecutive_failures: int = Field(default=10, ge=1)

    @model_validator(mode="after")
    def _some(self) -> "StopChange":
        if not self.model_fields_set:
            raise ValueError("write at least one field, like {'no_improvement': 30}")
        return self


class StudyPatch(BaseModel):
    """What may change of a study that runs; at least one of them."""

    model_config = _wanted(
        {"budget": {"trials": {"to": 60}}, "stop": {"no_improvement": 30}, "parallel": 4}
    )
    budget: Budgets | None = None
    stop: StopChange | None = None
    parallel: int | None = Field(
        default=None, ge=1, le=10_000, description="Trials at once; those that run go on."
    )
    weight: float | None = Field(
        default=None, ge=0.01, le=1000, description="Its share of a machine, beside others'."
    )
    priority: int | None = Field(
        default=None, ge=-100, le=100, description="Higher goes first where several wait."
    )

    @model_validator(mode="after")
    def _some(self) -> "StudyPatch":
        if not self.arguments():
            raise ValueError("write at least one of budget, stop, parallel, weight, priority")
        return self

    def arguments(self) -> dict[str, Json]:
        """As the command that asks for it has them."""
        found: dict[str, Json] = {}
        if self.budget is not None:
            found.update(self.budget.model_dump(exclude_unset=True, exclude_none=True))
        if self.stop is not None:
            found["stop"] = self.stop.model_dump(exclude_unset=True)
        numbers = {"parallel": self.parallel, "weight": self.weight, "priority": self.priority}
        found.update({name: number for name, number in numbers.items() if number is not None})
        return found


class TrialWanted(BaseModel):
    """A trial to be tried next: parameters, or a change of the program, or both."""

    model_config = _wanted({"params": {"learning_rate": 0.0003}})
    params: dict[str, bool | int | float | str] | None = Field(
        default=None, description="Every parameter of the space; default: the baseline's."
    )
    patch: str | None = Field(
        default=None, max_length=1_000_000, description="A diff of program.mutable files."
    )
    parent: str | None = Field(
        default=None, max_length=96, description="Candidate whose source the patch changes."
    )


class ConvertWanted(BaseModel):
    """One item of a study file's `convert` section, without an interpreter of its own."""

    model_config = _wanted({"quantize": "int8", "margin": 0.02})
    merge: bool | None = Field(
        default=None, description="true: merge the adapter; false: keep it beside the base."
    )
    quantize: Literal["int8", "int4", "gptq", "awq"] | None = None
    group_size: int | None = Field(default=None, ge=1, le=4096)
    calibration_rows: int | None = Field(default=None, ge=1, le=100_000)
    margin: float | None = Field(
        default=None, gt=0, le=1e15, description="Default: 2 % of the objective's range."
    )
    alpha: float | None = Field(default=None, gt=0, lt=0.5)
    seeds: int | None = Field(default=None, ge=1, le=100)

    @model_validator(mode="after")
    def _one(self) -> "ConvertWanted":
        if (self.merge is None) == (self.quantize is None):
            raise ValueError("write one of merge and quantize")
        return self
