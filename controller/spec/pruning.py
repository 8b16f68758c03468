"""The study file's section on ending trials early, and its rules."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Final

from pydantic import Field

from controller.spec.errors import Problem, shown
from controller.spec.strict import SAFE_INTEGER, Strict
from controller.spec.target import NonEmpty
from evaluator.pruning import MODULES, Margin, PrunerName, PrunerSettings, WrappedName
from ledger.records import Direction

_USED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "percentile": ("percentile",),
    "reduction_factor": ("asha", "hyperband"),
    "min_resource": ("asha", "hyperband"),
    "lower": ("threshold",),
    "upper": ("threshold",),
    "patience": ("patient",),
    "min_delta": ("patient",),
    "wrapped": ("patient",),
    "p_threshold": ("wilcoxon",),
    "margin": ("median", "percentile", "asha", "hyperband", "patient", "wilcoxon", "power_law"),
}
"""Which pruners read a key."""


class PruningSpec(Strict):
    """Whether trials that look hopeless are ended early."""

    name: PrunerName = "none"
    """power_law: a forecast at the horizon stays below the best; median, percentile: behind the
    others at this step; asha, hyperband: not among the best that reached a rung; threshold: out
    of bounds; patient: no progress; wilcoxon: worse than the best, step by step."""
    metric: NonEmpty | None = None
    """The reported metric to judge by; default: the objective's name."""
    direction: Direction | None = None
    """Of that metric; default: the objective's."""
    warmup_steps: int = Field(default=0, ge=0, le=SAFE_INTEGER)
    """Nothing is pruned before this step."""
    startup_trials: int = Field(default=5, ge=0, le=SAFE_INTEGER)
    """Nothing is compared before so many trials ended."""
    horizon: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)
    """power_law, asha, hyperband: the step at which trials end; default: the furthest seen."""
    percentile: float = Field(default=25.0, gt=0, lt=100)
    """percentile: so many per cent of the trials, the best at this step, are kept."""
    reduction_factor: int = Field(default=3, ge=2, le=SAFE_INTEGER)
    """asha, hyperband: one trial in so many passes a rung; each rung is at so many times the
    step of the one before."""
    min_resource: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)
    """asha, hyperband: the step of the first rung; default: a ninth of the horizon."""
    lower: float | None = None
    """threshold: a value below ends the trial."""
    upper: float | None = None
    """threshold: a value above ends the trial."""
    patience: int | None = Field(default=None, ge=1, le=SAFE_INTEGER)
    """patient: for so many steps nothing better came."""
    min_delta: float = Field(default=0.0, ge=0)
    """patient: what counts as better is more than this above the best before."""
    wrapped: WrappedName | None = None
    """patient: which pruner has the last word when patience ends; default: the trial ends."""
    p_threshold: float = Field(default=0.05, gt=0, lt=1)
    """wilcoxon: the test's level."""
    margin: Margin = "auto"
    """All but threshold: auto: end no trial that may still become the best by what this study's
    complete trials came to (docs/decisions.md): none in the first quarter, none whose forecast
    reaches the best if it errs as others did, none unlike all that are known or like one that
    rose; none: the bare rule."""

    def settings(self) -> PrunerSettings:
        """What evaluator.pruning is told."""
        fields = self.model_dump(exclude={"metric", "direction", "patience"})
        return PrunerSettings(**fields, patience=self.patience or 0)


def pruning_problems(spec: PruningSpec) -> Iterator[Problem]:
    """What is wrong between the keys of the section."""
    used = {spec.name, spec.wrapped if spec.name == "patient" else None}
    for key, pruners in _USED_BY.items():
        # A stored study has every key: the default says nothing.
        said = getattr(spec, key) != PruningSpec.model_fields[key].default
        if said and not used & set(pruners):
            yield Problem(
                f"pruning.{key}",
                f"pruner {spec.name} does not read it",
                f"remove it, or write pruning.name: {' or '.join(pruners)}",
                shown(getattr(spec, key)),
            )
    yield from _missing(spec)
    if spec.name == "patient" and spec.patience is None:
        yield Problem(
            "pruning.patience",
            "a patient pruner has to know for how long",
            "write a number of steps",
        )
    if "threshold" in used and spec.lower is None and spec.upper is None:
        yield Problem(
            "pruning",
            "a threshold needs a bound",
            "write pruning.lower, pruning.upper or both",
        )
    if spec.lower is not None and spec.upper is not None and spec.lower >= spec.upper:
        yield Problem(
            "pruning.lower",
            f"it is not below pruning.upper ({spec.upper:g}), so every value is out of bounds",
            "write a lower number",
            shown(spec.lower),
        )
    first, horizon = spec.min_resource, spec.horizon
    if first is not None and horizon is not None and first >= horizon:
        yield Problem(
            "pruning.min_resource",
            f"the first rung is not before pruning.horizon ({horizon}), where trials end",
            "write a smaller number",
            shown(first),
        )


def _missing(spec: PruningSpec) -> Iterator[Problem]:
    judge = spec.wrapped if spec.name == "patient" and spec.wrapped else spec.name
    missing = [module for module in MODULES.get(judge, ()) if find_spec(module) is None]
    if missing:
        field = "pruning.name" if judge == spec.name else "pruning.wrapped"
        rule = f"{' and '.join(missing)} missing"
        yield Problem(field, rule, "pip install 'arl[optuna]'", shown(judge))
