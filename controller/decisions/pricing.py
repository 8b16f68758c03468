"""What a study will cost before anything is spent: baselines, search and the gate's replays, in
runs, hours and GPU hours."""

import math
from dataclasses import dataclass, replace

from controller.decisions.profiles import PROFILES, GateProfile, gate_runs_bounds
from controller.spec.space import search_space
from controller.spec.study import StudySpec
from ledger.errors import InvalidInput
from ledger.states import Reason
from proposers.registry import PROPOSERS, describe
from proposers.search_space import cardinality


@dataclass(frozen=True, slots=True)
class Range:
    """The least, the usual and the most."""

    least: float
    typical: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePrice:
    """A study under one promotion profile; numbers are None where nothing limits the search."""

    profile: str | None
    """None: without a promotion."""
    baseline_trials: int
    gate_runs: Range
    """least: the best candidate falls in stage 1; typical: the test is reached and not passed;
    most: a promotion."""
    trials: Range | None
    """Baselines, search and gate together."""
    hours: Range | None
    """At the study's `parallel`; None without an estimate of one trial's time."""
    gpu_hours: Range | None
    worst_hours: float | None
    """When every attempt runs to its time limit, once."""
    worst_gpu_hours: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPrice:
    parallel: int
    trial_wall_s: float | None
    """The estimate it was computed with: one trial's training and evaluation."""
    search_trials: int | None
    """At most so many; None when only a stop rule ends the search."""
    limited_by: Reason | None
    """What ends the search at that number."""
    profiles: tuple[ProfilePrice, ...]
    """The study's own profile first; without a promotion, only what there is."""


@dataclass(frozen=True, slots=True)
class _Wave:
    """Runs that may all be in progress at once, and how many evaluations each has."""

    runs: int
    evaluations: int


def price_study(spec: StudySpec, *, trial_wall_s: float | None = None) -> StudyPrice:
    """Price the study under its own promotion profile and the other ones.

    Args:
        trial_wall_s: what one trial takes, training and evaluation together; without it only
            runs and the worst case are known.
    """
    search, limited_by = _search_trials(spec, trial_wall_s)
    return StudyPrice(
        parallel=spec.parallel,
        trial_wall_s=trial_wall_s,
        search_trials=search,
        limited_by=limited_by,
        profiles=tuple(_price(spec, profile, search, trial_wall_s) for profile in _profiles(spec)),
    )


def check_price(spec: StudySpec, *, trial_wall_s: float | None = None) -> None:
    """Raises InvalidInput when the budget ends before the first search trial."""
    price = price_study(spec, trial_wall_s=trial_wall_s)
    if price.search_trials == 0:
        raise InvalidInput(
            f"budget: it ends ({price.limited_by}) with the {spec.baselines()} baseline trials and"
            " the gate's replays, before the first search trial; write more, or the quick profile"
        )


def _profiles(spec: StudySpec) -> list[GateProfile | None]:
    if spec.promotion is None:
        return [None]
    own = spec.promotion.profile
    return [PROFILES[own], *(p for p in PROFILES.values() if p.name != own)]


def _search_trials(
    spec: StudySpec, trial_wall_s: float | None
) -> tuple[int | None, Reason | None]:
    """The smallest number any limit gives."""
    limits: list[tuple[int, Reason]] = []
    size = cardinality(search_space(spec.space))
    name, options = spec.proposer.name, spec.proposer.options
    if size is not None and name in PROPOSERS and describe(name, options).exhausts:
        limits.append((size, Reason.SPACE_EXHAUSTED))
    if spec.budget.trials is not None:
        limits.append((spec.budget.trials, Reason.BUDGET_TRIALS))
    if trial_wall_s:
        limits += _time_limits(spec, trial_wall_s)
    return min(limits, key=lambda limit: limit[0], default=(None, None))


def _time_limits(spec: StudySpec, trial_wall_s: float) -> list[tuple[int, Reason]]:
    """What the clock and the GPU budget leave beside the baselines and a whole gate."""
    gate = 0
    if spec.promotion is not None:
        _, gate = gate_runs_bounds(PROFILES[spec.promotion.profile])
        gate += _conversions(spec)
    limits: list[tuple[int, Reason]] = []
    if spec.budget.wall_time_s is not None:
        turns = math.floor(spec.budget.wall_time_s / trial_wall_s)
        turns -= sum(math.ceil(runs / spec.parallel) for runs in (spec.baselines(), gate))
        limits.append((max(0, turns) * spec.parallel, Reason.BUDGET_WALL_TIME))
    if spec.budget.gpu_hours is not None and spec.resources.gpus:
        fits = math.floor(spec.budget.gpu_hours * 3600 / (spec.resources.gpus * trial_wall_s))
        limits.append((max(0, fits - spec.baselines() - gate), Reason.BUDGET_GPU_HOURS))
    return limits


def _price(
    spec: StudySpec,
    profile: GateProfile | None,
    search: int | None,
    trial_wall_s: float | None,
) -> ProfilePrice:
    baselines = spec.baselines() if profile is None else _baselines(spec, profile)
    gates = _gates(profile)
    gate_runs = _range([float(sum(wave.runs for wave in gate)) for gate in gates])
    unpriced = ProfilePrice(
        profile=None if profile is None else profile.name,
        baseline_trials=baselines,
        gate_runs=gate_runs,
        trials=None,
        hours=None,
        gpu_hours=None,
        worst_hours=None,
        worst_gpu_hours=None,
    )
    if search is None:
        return unpriced
    start = [_Wave(baselines, 1 if profile is None else 3), _Wave(search, 1)]
    plans = [[*start, *gate] for gate in gates]
    # Only a promotion is converted: measured, and evaluated on both halves.
    plans[-1] += [_Wave(count, 3)] if (count := _conversions(spec)) else []
    runs = _range([float(sum(wave.runs for wave in plan)) for plan in plans])
    worst_s, worst_busy_s = _worst(spec, plans[-1])
    priced = replace(
        unpriced,
        trials=runs,
        worst_hours=worst_s / 3600,
        worst_gpu_hours=worst_busy_s * spec.resources.gpus / 3600,
    )
    if trial_wall_s is None:
        return priced
    turns = _range([float(_turns(plan, spec.parallel)) for plan in plans])
    gpu_s = trial_wall_s * spec.resources.gpus
    return replace(
        priced,
        hours=_scaled(turns, trial_wall_s / 3600),
        gpu_hours=_scaled(runs, gpu_s / 3600),
    )


def _conversions(spec: StudySpec) -> int:
    """Trials that the promoted model is converted in."""
    return sum(conversion.seeds for conversion in spec.convert)


def _baselines(spec: StudySpec, profile: GateProfile) -> int:
    """The gate's pool is filled up to what the profile compares with."""
    return max(profile.n0, spec.noise.baseline_trials or 0)


def _gates(profile: GateProfile | None) -> list[list[_Wave]]:
    """The gate's waves in its shortest, usual and longest course."""
    if profile is None:
        return [[], [], []]
    stage_1 = [_Wave(profile.m * profile.k1, 1)]
    half = _Wave(profile.k2 // 2, 1)
    stage_2 = [*stage_1, half, half]
    return [stage_1, stage_2, [*stage_2, _Wave(profile.n_new + profile.n_old, 2)]]


def _turns(plan: list[_Wave], parallel: int) -> int:
    """How many trials run one after the other when each wave fills `parallel` slots."""
    return sum(math.ceil(wave.runs / parallel) for wave in plan)


def _worst(spec: StudySpec, plan: list[_Wave]) -> tuple[float, float]:
    """Seconds on the clock, and summed over all runs, when every attempt takes its limit."""
    evaluation_s = 0.0 if spec.evaluator.mode == "reported" else spec.evaluator.wall_time_s
    clock_s = busy_s = 0.0
    for wave in plan:
        one_s = spec.resources.wall_time_s + wave.evaluations * evaluation_s
        clock_s += math.ceil(wave.runs / spec.parallel) * one_s
        busy_s += wave.runs * one_s
    return clock_s, busy_s


def _range(values: list[float]) -> Range:
    least, typical, most = values
    return Range(least, typical, most)


def _scaled(amounts: Range, factor: float) -> Range:
    return Range(amounts.least * factor, amounts.typical * factor, amounts.most * factor)
