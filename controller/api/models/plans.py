"""Plans on the wire: a study file checked and priced, rollouts sized. Nothing runs."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from controller.api.models.wire import Flagged, Number, Out, example


class StudyToCheck(BaseModel):
    """A study file; its paths are not opened."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"study": {"name": "demo"}, "trial_wall_s": 90.0}]},
    )
    study: dict[str, JsonValue]
    trial_wall_s: float | None = Field(
        None, gt=0, le=1e9, description="What one trial and its evaluation take."
    )
    rollouts: "RolloutRates | None" = None


class RolloutRates(BaseModel):
    """One update's rollouts, as far as the study does not say."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"prompts": 64, "average_tokens": 512, "tokens_per_second": 2500, "window_s": 60}
            ]
        },
    )
    prompts: int = Field(ge=1, le=10**9)
    average_tokens: int = Field(ge=1, le=10**9)
    tokens_per_second: int = Field(ge=1, le=10**9, description="Of one rollout GPU.")
    window_s: int = Field(ge=1, le=10**9)


class RolloutQuestion(RolloutRates):
    """How many GPUs one update's rollouts take."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {
                    "prompts": 64,
                    "group_size": 8,
                    "average_tokens": 512,
                    "tokens_per_second": 2500,
                    "window_s": 60,
                }
            ]
        },
    )
    group_size: int = Field(ge=1, le=10**6, description="Completions of each prompt.")


class RolloutAnswer(Out):
    """The least number of rollout GPUs."""

    model_config = example({"gpus": 2, "tokens": 262144})
    gpus: int
    tokens: int = Field(description="To generate within the window.")


class FaultOut(Out):
    """One thing to change in a study file."""

    model_config = example({"field": "space.lr.low", "detail": "0 is not above 0; write 1e-6"})
    field: str
    detail: str


class CheckedStudy(Flagged):
    """Whether a study file is valid, and all that is wrong with it."""

    model_config = example({"valid": False, "name": None, "problems": []})
    valid: bool
    name: str | None
    problems: list[FaultOut]


class RangeOut(Out):
    """What something comes to."""

    model_config = example({"least": 5.0, "typical": 20.0, "most": 60.0})
    least: float
    typical: float
    most: float


class ErrorRatesOut(Out):
    """How often a profile errs, by simulation."""

    model_config = example(
        {
            "false_promotion": 0.01,
            "false_promotion_worst_noise": 0.03,
            "power_1_sd": 0.4,
            "power_2_sd": 0.9,
            "power_3_sd": 1.0,
        }
    )
    false_promotion: float
    false_promotion_worst_noise: float
    power_1_sd: float
    power_2_sd: float
    power_3_sd: float


class ProfilePriceOut(Out):
    """The whole study under one promotion profile."""

    model_config = example(
        {
            "profile": "quick",
            "baseline_trials": 5,
            "gate_runs": {"least": 5, "typical": 20, "most": 60},
            "trials": {"least": 45, "typical": 60, "most": 100},
            "hours": None,
            "gpu_hours": None,
            "worst_hours": 50.0,
            "worst_gpu_hours": 0.0,
            "error_rates": None,
        }
    )
    profile: str | None = Field(description="Null: without a promotion.")
    baseline_trials: int
    gate_runs: RangeOut | None
    trials: RangeOut | None
    hours: RangeOut | None = Field(description="Null unless trial_wall_s was given.")
    gpu_hours: RangeOut | None
    worst_hours: Number
    worst_gpu_hours: Number
    error_rates: ErrorRatesOut | None


class PlanOut(Flagged):
    """What a study file means, and what the whole study costs."""

    model_config = example(
        {
            "name": "demo",
            "valid": True,
            "parallel": 2,
            "trial_wall_s": 90.0,
            "search_trials": 40,
            "limited_by": "budget_trials",
            "profiles": [],
            "plan": None,
            "implies": None,
            "memory": None,
            "rollouts": None,
            "configurations": None,
        }
    )
    name: str
    valid: bool
    parallel: int
    trial_wall_s: Number
    search_trials: int | None
    limited_by: str | None
    profiles: list[ProfilePriceOut]
    plan: dict[str, JsonValue] | None = Field(description="The baseline's; null without one.")
    implies: dict[str, list[str]] | None
    memory: dict[str, JsonValue] | None
    rollouts: dict[str, JsonValue] | None
    configurations: dict[str, JsonValue] | None = Field(
        description="What launches such a system, by tool."
    )
