"""The study file as strict models: unknown keys refused, every default visible here."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ledger.records import Direction, ParamValue


class Strict(BaseModel):
    """Base of every model in a study file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ObjectiveSpec(Strict):
    metric: str
    direction: Direction


class FloatSpec(Strict):
    type: Literal["float"]
    low: float
    high: float
    log: bool = False
    step: float | None = None
    default: float | None = None


class IntSpec(Strict):
    type: Literal["int"]
    low: int
    high: int
    log: bool = False
    step: int = 1
    default: int | None = None


class CategoricalSpec(Strict):
    type: Literal["categorical"]
    choices: tuple[ParamValue, ...]
    default: ParamValue | None = None


ParameterSpec: TypeAlias = Annotated[
    FloatSpec | IntSpec | CategoricalSpec, Field(discriminator="type")
]


class ProgramSpec(Strict):
    """What one trial runs."""

    kind: Literal["sft", "command"]
    python: str | None = None
    """Interpreter for `{python}` and for the built-in programs; default: the one ARL runs on."""
    argv: tuple[str, ...] | None = None
    """For kind `command`: what to execute; `{python}` and `{name}` of an input are replaced."""
    source: str | None = None
    """Directory copied into each trial's working directory (kind `command`)."""
    mutable: tuple[str, ...] = ()
    """Files below `source` that a patch may change; everything else is frozen."""
    base: str | None = None
    """Directory of the base model."""
    data: dict[str, str] = {}
    """Data files or directories by name, mounted read-only as inputs."""
    options: dict[str, object] = {}
    """The built-in program's fixed settings; space parameters override them by name."""
    environment: dict[str, str] = {}


class TargetSpec(Strict):
    name: Literal["auto", "local"] = "auto"


class ResourcesSpec(Strict):
    cpus: float = 1.0
    gpus: int = 0
    memory_bytes: int | None = None
    """Written `4GiB` in the file."""
    wall_time_s: float = 1800.0
    """Written `30m` in the file."""
    stall_time_s: float | None = None
    log_bytes: int = 16 * 1024 * 1024
    output_bytes: int = 64 * 1024**3


class MetricSpec(Strict):
    low: float | None = None
    high: float | None = None
    resolution: float = 0.0
    """The smallest difference that means anything; the noise floor is never below it."""


class EvaluatorSpec(Strict):
    bundle: str | None = None
    """Directory with the evaluator's files."""
    program: str | None = None
    """Name of a built-in evaluator program instead of a bundle."""
    splits: dict[Literal["search", "holdout"], str] = {}
    """JSON Lines files (with `bundle`: below it), one item a line, or directories."""
    argv: tuple[str, ...] | None = None
    python: str | None = None
    mode: Literal["weights", "answers", "reported"] = "weights"
    metrics: dict[str, MetricSpec] = {}
    options: dict[str, object] = {}
    requires_model: bool = True
    """Whether a trial without output/model fails as `no_model` before any evaluation."""
    wall_time_s: float = 1800.0
    cpus: float | None = None
    holdout_budget: int = 20
    """How many replay families, across studies, may use this bundle's holdout split."""
    answer_argv: tuple[str, ...] | None = None
    """`answers` mode: what to execute in the candidate's source to answer inputs."""
    answer_timeout_s: float = 30.0


class NoiseSpec(Strict):
    baseline_trials: int | None = None
    """Default: what the promotion profile needs, or 3 without a promotion."""


class PruningSpec(Strict):
    name: Literal["none", "median", "power_law"] = "none"
    metric: str | None = None
    """The reported metric to judge by; default: the objective's name."""
    direction: Direction | None = None
    warmup_steps: int = 0
    startup_trials: int = 5
    horizon: int | None = None
    """power_law: the step at which the forecast is read; default: the furthest step seen."""


class BudgetSpec(Strict):
    trials: int | None = None
    wall_time_s: float | None = None
    gpu_hours: float | None = None
    llm_tokens: int | None = None
    llm_cost_usd: float | None = None


class StopSpec(Strict):
    goal: float | None = None
    no_improvement: int | None = None
    failure_rate: float = 0.5
    failure_window: int = 20
    """The failure rate is judged over this many latest finished trials, once there are so many."""
    consecutive_failures: int = 10


class GuardSpec(Strict):
    max_drop: float


class PromotionSpec(Strict):
    model: str
    profile: Literal["quick", "thorough"] = "thorough"
    alpha: float = 0.05
    min_effect: float = 0.0
    guard: dict[str, GuardSpec] = {}
    approval: Literal["none", "required"] = "none"
    allow_reported: bool = False


class RetriesSpec(Strict):
    infrastructure: int = 3
    evaluator: int = 2
    candidate: int = 0


class ProposerSpec(Strict):
    name: str = "random"
    options: dict[str, object] = {}


class StudySpec(Strict):
    """One study. Everything has a default except name, objective, program, space, evaluator."""

    name: str
    objective: ObjectiveSpec
    program: ProgramSpec
    space: dict[str, ParameterSpec] = {}
    evaluator: EvaluatorSpec
    proposer: ProposerSpec = ProposerSpec()
    target: TargetSpec = TargetSpec()
    resources: ResourcesSpec = ResourcesSpec()
    parallel: int = 1
    seed: int = 0
    duplicates: Literal["serve", "replicate"] = "serve"
    noise: NoiseSpec = NoiseSpec()
    pruning: PruningSpec = PruningSpec()
    budget: BudgetSpec = BudgetSpec()
    stop: StopSpec = StopSpec()
    retries: RetriesSpec = RetriesSpec()
    promotion: PromotionSpec | None = None
