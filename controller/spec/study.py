"""The study file as strict models: unknown keys refused, every default visible here."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from controller.spec.convert import ConvertSpec
from controller.spec.notify import NotifySpec
from controller.spec.plan_section import PlanSpec
from controller.spec.pruning import PruningSpec
from controller.spec.quantities import Count, Seconds
from controller.spec.retention import RetentionSpec
from controller.spec.space import (
    CategoricalSpec,
    FloatSpec,
    IntSpec,
    ParameterSpec,
)
from controller.spec.strict import SAFE_INTEGER, Strict
from controller.spec.target import NonEmpty, ResourcesSpec, TargetSpec
from ledger.records import Direction

__all__ = [
    "BASELINES",
    "BASELINES_NEEDED",
    "BudgetSpec",
    "CategoricalSpec",
    "ConvertSpec",
    "EvaluatorSpec",
    "FloatSpec",
    "GuardSpec",
    "IntSpec",
    "MetricSpec",
    "NoiseSpec",
    "NotifySpec",
    "ObjectiveSpec",
    "ParameterSpec",
    "PlanSpec",
    "ProgramSpec",
    "PromotionSpec",
    "ProposerSpec",
    "PruningSpec",
    "ResourcesSpec",
    "RetentionSpec",
    "RetriesSpec",
    "StopSpec",
    "Strict",
    "StudySpec",
    "TargetSpec",
]

BASELINES: Final = 3
"""Runs that measure the noise of a study without a promotion."""
BASELINES_NEEDED: Final[Mapping[str, int]] = {"quick": 5, "thorough": 10}
"""Runs of the incumbent that a promotion profile compares with."""

Argv = Annotated[tuple[Annotated[str, Field(max_length=128 * 1024)], ...], Field(min_length=1)]


class ObjectiveSpec(Strict):
    """What the study is about: one metric and which way is better."""

    metric: NonEmpty
    """A name under evaluator.metrics."""
    direction: Direction
    """maximize or minimize."""


class ConstraintSpec(Strict):
    """Bounds of a metric; a candidate outside of them is never kept."""

    low: float | None = None
    high: float | None = None


class ProgramSpec(Strict):
    """What one trial runs."""

    kind: Literal["sft", "dpo", "grpo", "ppo", "reward_model", "rejection_sampling", "command"]
    """sft: supervised fine-tuning; dpo: preference optimisation on pairs; grpo, ppo: reinforcement
    learning with a verifier or a reward model; reward_model: learns to rank pairs;
    rejection_sampling: the best of N sampled answers, then sft on them; command: your own
    program."""
    python: NonEmpty | None = None
    """Interpreter for `{python}` and for the built-in programs; default: the one ARL runs on."""
    argv: Argv | None = None
    """For kind `command`: what to execute; `{python}` and `{name}` of an input are replaced."""
    source: NonEmpty | None = None
    """Directory copied into each trial's working directory (kind `command`)."""
    mutable: tuple[NonEmpty, ...] = ()
    """Files below `source` that a patch may change; everything else is frozen."""
    required_calls: tuple[NonEmpty, ...] = ()
    """Calls that every patch has to leave in the mutable Python files, like report."""
    brief: NonEmpty | None = None
    """Text file with guidance for a language model that proposes; Markdown is fine."""
    mutable_reason: NonEmpty | None = None
    """Why `weights` mode may score this study although `mutable` is set: say that the mutable
    files train a model of a stock architecture and define none of it."""
    base: NonEmpty | None = None
    """Directory of the base model."""
    data: dict[str, NonEmpty] = Field(default_factory=dict)
    """Data files or directories by name, mounted read-only as inputs."""
    options: dict[str, object] = Field(default_factory=dict)
    """The program's fixed settings; space parameters override them by name."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the program; it inherits none."""
    plan: PlanSpec | None = None
    """What the post-training system is made of; what is left out follows from kind and options."""


class MetricSpec(Strict):
    """A number the evaluator gives."""

    low: float | None = None
    """A smaller score is refused as an evaluator error."""
    high: float | None = None
    """A larger score is refused as an evaluator error."""
    resolution: float = Field(default=0.0, ge=0)
    """The smallest difference that means anything; the noise floor is never below it."""


class EvaluatorSpec(Strict):
    """What turns a trained model into scores; frozen when the study is submitted."""

    bundle: NonEmpty | None = None
    """Directory with the evaluator's files."""
    program: NonEmpty | None = None
    """Name of a built-in evaluator program instead of a bundle."""
    splits: dict[Literal["search", "holdout"], NonEmpty] = Field(default_factory=dict)
    """JSON Lines files (with `bundle`: below it), one item a line, or directories."""
    argv: Argv | None = None
    """With `bundle`: what to execute in it."""
    python: NonEmpty | None = None
    """Interpreter for `{python}`; default: the one ARL runs on."""
    mode: Literal["weights", "answers", "reported"] = "weights"
    """weights: the evaluator loads the model; answers: the candidate's code answers its inputs
    in another sandbox; reported: the program's own last report is believed."""
    metrics: dict[NonEmpty, MetricSpec] = Field(default_factory=dict)
    """Every metric a score document holds; others are refused."""
    options: dict[str, object] = Field(default_factory=dict)
    """The evaluator program's settings."""
    target: Literal["docker", "bubblewrap", "local", "http", "ray"] | None = None
    """Where evaluations (and preparing) run; default: where trials run, but with target http
    this machine's own sandbox."""
    image: NonEmpty | None = None
    """docker, ray: what evaluations run in; default: target.image."""
    requires_model: bool = True
    """Whether a trial without output/model fails as `no_model` before any evaluation."""
    wall_time_s: Seconds = Field(
        default=1800.0, validation_alias="wall_time", serialization_alias="wall_time"
    )
    """Like 10m: an evaluation that runs longer is ended and is no score."""
    cpus: float | None = Field(default=None, gt=0)
    """Default: what resources.cpus says."""
    holdout_budget: int = Field(default=20, ge=1, le=SAFE_INTEGER)
    """How many replay families, across studies, may use this bundle's holdout split."""
    answer_argv: Argv | None = None
    """`answers` mode: what to execute in the candidate's source to answer inputs."""
    answer_timeout_s: Seconds = Field(
        default=30.0, validation_alias="answer_timeout", serialization_alias="answer_timeout"
    )
    """`answers` mode: how long one batch of answers may take."""


class NoiseSpec(Strict):
    """How the noise is measured before anything is compared."""

    baseline_trials: int | None = Field(default=None, ge=2, le=SAFE_INTEGER)
    """Default: what the promotion profile needs, or 3 without a promotion."""


class BudgetSpec(Strict):
    """What the study may use; no limit where nothing is said."""

    trials: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)
    """Search trials; baselines and replays are not counted."""
    wall_time_s: Seconds | None = Field(
        default=None, validation_alias="wall_time", serialization_alias="wall_time"
    )
    """Like 8h, pauses excluded."""
    gpu_hours: float | None = Field(default=None, gt=0)
    llm_tokens: Count | None = None
    """Like 2M."""
    llm_cost_usd: float | None = Field(default=None, gt=0)


class StopSpec(Strict):
    """When to stop looking before a budget is spent."""

    goal: float | None = None
    """A value of the objective that is good enough."""
    no_improvement: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)
    """Stop after so many finished trials in a row of which none was kept."""
    failure_rate: float = Field(default=0.5, gt=0, le=1)
    """Stop when at least this share of the latest trials failed."""
    failure_window: int = Field(default=20, ge=1, le=SAFE_INTEGER)
    """The failure rate is judged over this many latest finished trials, once there are so many."""
    consecutive_failures: int = Field(default=10, ge=1, le=SAFE_INTEGER)
    """Stop when so many trials failed one after the other."""


class GuardSpec(Strict):
    """A metric that must not get worse."""

    max_drop: float = Field(ge=0)
    """How much worse it may be and still pass."""


class PromotionSpec(Strict):
    """Under which name the winner is promoted, and what it must pass."""

    model: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """The name whose incumbent it replaces."""
    profile: Literal["quick", "thorough"] = "thorough"
    """How many replays the gate makes; `arl plan` prints what each costs and how often it errs."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """The chance that a candidate without merit passes the test."""
    min_effect: float = Field(default=0.0, ge=0)
    """What a change must bring to be worth it, in the metric's unit."""
    guard: dict[str, GuardSpec] = Field(default_factory=dict)
    """Metrics that must not get worse, by name."""
    approval: Literal["none", "required"] = "none"
    """Whether a person has to approve."""
    allow_reported: bool = False
    """Promote although the program reports its own score."""


class RetriesSpec(Strict):
    """How often an attempt is tried again, by whose fault its failure was."""

    infrastructure: int = Field(default=3, ge=0, le=100)
    evaluator: int = Field(default=2, ge=0, le=100)
    candidate: int = Field(default=0, ge=0, le=100)


class ProposerSpec(Strict):
    """What suggests the next trial."""

    name: NonEmpty = "random"
    """grid, random, sobol, tpe, gp, cmaes, nsga2, ppo, llm, llm_diff or hybrid."""
    options: dict[str, object] = Field(default_factory=dict)


class StudySpec(Strict):
    """One study. Everything has a default except name, objective, program, space, evaluator."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
    """Letters, digits and . _ - only, at most 100."""
    objective: ObjectiveSpec
    objectives: tuple[ObjectiveSpec, ...] = ()
    """Further objectives, for proposers that look for a Pareto front (nsga2, tpe); candidates are
    kept, replayed and promoted by `objective` alone."""
    constraints: dict[NonEmpty, ConstraintSpec] = Field(default_factory=dict)
    """Metrics that must stay in bounds: a candidate that breaks one is never kept."""
    program: ProgramSpec
    space: dict[str, ParameterSpec] = Field(default_factory=dict)
    """What varies: parameters by name. The seed is never one of them."""
    evaluator: EvaluatorSpec
    proposer: ProposerSpec = ProposerSpec()
    target: TargetSpec = TargetSpec()
    resources: ResourcesSpec = ResourcesSpec()
    parallel: int = Field(default=1, ge=1, le=10_000)
    """How many trials at once, where the machine has room."""
    weight: float = Field(default=1.0, ge=0.01, le=1000)
    """Of a machine that several studies want, one with 2 gets twice what one with 1 gets."""
    priority: int = Field(default=0, ge=-100, le=100)
    """Of several studies that wait for a machine, the highest goes first."""
    seed: int = Field(default=0, ge=0, le=2**53 - 1)
    """Of the search: the same seed proposes the same candidates."""
    duplicates: Literal["serve", "replicate"] = "serve"
    """serve: a repeated candidate gets the earlier value; replicate: it runs again."""
    noise: NoiseSpec = NoiseSpec()
    pruning: PruningSpec = PruningSpec()
    budget: BudgetSpec = BudgetSpec()
    stop: StopSpec = StopSpec()
    retries: RetriesSpec = RetriesSpec()
    promotion: PromotionSpec | None = None
    """Without it the study searches and promotes nothing."""
    notify: tuple[NotifySpec, ...] = ()
    """Webhooks that are told of what happens; each a section."""
    convert: tuple[ConvertSpec, ...] = ()
    """What is made of the promoted model, each judged on the holdout before it may be served."""
    retention: RetentionSpec | None = None
    """What is kept of what trials saved and said. Without it everything is."""

    def baselines(self) -> int:
        """How many baseline trials the study starts with."""
        if self.noise.baseline_trials is not None:
            return self.noise.baseline_trials
        return BASELINES if self.promotion is None else BASELINES_NEEDED[self.promotion.profile]
