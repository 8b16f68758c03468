"""The rules between sections of a study file. Each names what it reads, so that it can speak as
soon as those sections are readable, whatever is wrong elsewhere."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from controller.spec.convert_rules import CONVERT_RULES
from controller.spec.errors import Problem, path, shown
from controller.spec.notify import webhook_problems
from controller.spec.program_rules import PROGRAM_RULES
from controller.spec.pruning import pruning_problems
from controller.spec.space import search_space
from controller.spec.space_rules import SPACE_RULES, broken_conditions
from controller.spec.study import BASELINES_NEEDED, StudySpec
from controller.spec.target_rules import TARGET_RULES
from controller.spec.translation import suggestion
from proposers.fallback import fallback_problem
from proposers.grid import continuous
from proposers.hybrid_options import Part
from proposers.registry import (
    PROPOSERS,
    Registered,
    describe,
    known,
    missing_modules,
    option_problems,
    parts,
)
from proposers.search_space import cardinality

Rule: TypeAlias = Callable[[StudySpec], Iterator[Problem]]


def broken_rules(spec: StudySpec, readable: Collection[str]) -> Iterator[Problem]:
    """Every problem between the `readable` sections of `spec`."""
    circular = list(broken_conditions(spec)) if "space" in readable else []
    yield from circular
    readable = [section for section in readable if section != "space" or not circular]
    for needed, rule in (*SPACE_RULES, *_RULES, *PROGRAM_RULES, *TARGET_RULES, *CONVERT_RULES):
        if all(section in readable for section in needed):
            yield from rule(spec)


def _proposer(spec: StudySpec) -> Iterator[Problem]:
    name = spec.proposer.name
    if name not in PROPOSERS:
        near = suggestion(name, list(PROPOSERS))
        yield Problem(
            "proposer.name",
            "there is no such proposer",
            f"write {near} instead" if near else f"write one of {known()}",
            shown(name),
        )
        return
    for option, why in option_problems(name, spec.proposer.options):
        value = shown(_value_at(spec.proposer.options, option))
        yield Problem(f"proposer.options.{option}", why, "correct or remove it", value)
    missing, _, remedy = missing_modules(name, spec.proposer.options).partition("; ")
    if missing:
        yield Problem("proposer.name", missing, remedy, shown(name))


def _value_at(options: object, where: str) -> object:
    """What a study file says at arms.1.options.x; None where it says nothing."""
    for key in where.split("."):
        if isinstance(options, Mapping):
            options = options.get(key)
        elif isinstance(options, Sequence) and key.isdigit() and int(key) < len(options):
            options = options[int(key)]
        else:
            return None
    return options


def _described(spec: StudySpec) -> Registered | None:
    """The facts of the study's proposer; None for one that is not known."""
    name, options = spec.proposer.name, spec.proposer.options
    return describe(name, options) if name in PROPOSERS else None


def _parts(spec: StudySpec) -> tuple[Part, ...]:
    name, options = spec.proposer.name, spec.proposer.options
    return parts(name, options) if name in PROPOSERS else ()


def _one_objective(spec: StudySpec) -> Iterator[Problem]:
    registered = _described(spec)
    if registered is not None and registered.one_objective and spec.objectives:
        yield Problem(
            "objectives",
            f"proposer {spec.proposer.name} looks for the best of one objective",
            "remove them, or write proposer.name: nsga2, tpe or gp",
        )


def _model_proposer(spec: StudySpec) -> Iterator[Problem]:
    """What proposers that ask language models need of the other sections."""
    for part in _parts(spec):
        registered = PROPOSERS[part.name]
        if registered.asks_models:
            yield from _asks_models(spec, part, registered)


def _asks_models(spec: StudySpec, part: Part, registered: Registered) -> Iterator[Problem]:
    if registered.writes_patches and not spec.program.mutable:
        yield Problem(
            "program.mutable",
            f"proposer {part.name} changes these files, and there are none",
            "name the files that it may change, like [train.py]",
        )
    if part.name == "llm" and not spec.space:
        yield Problem(
            "space",
            "proposer llm chooses parameters, and there are none",
            "add a parameter, or write proposer.name: llm_diff",
        )
    fallback = part.options.get("fallback", "none")
    why = fallback_problem(fallback) if isinstance(fallback, str) else ""
    if why:
        where = f"proposer.options.{part.where}fallback"
        yield Problem(where, why, "correct or remove it", shown(fallback))


def _grid_is_finite(spec: StudySpec) -> Iterator[Problem]:
    if all(part.name != "grid" for part in _parts(spec)):
        return
    for name in continuous(search_space(spec.space)):
        yield Problem(
            f"space.{name}",
            "a grid cannot walk a continuous range",
            "add a step, or write its values as type: categorical with choices",
        )


def _comes_to_an_end(spec: StudySpec) -> Iterator[Problem]:
    proposer = _described(spec)
    if proposer is None or spec.stop.no_improvement is not None:
        return
    if proposer.exhausts and cardinality(search_space(spec.space)) is not None:
        return
    budget = spec.budget
    if budget.trials is None and budget.wall_time_s is None and budget.gpu_hours is None:
        yield Problem(
            "budget",
            "nothing ends this study, so it would run for ever",
            "write budget.trials, budget.wall_time or stop.no_improvement",
        )


def _gpu_budget(spec: StudySpec) -> Iterator[Problem]:
    hours, gpus = spec.budget.gpu_hours, spec.resources.gpus
    if hours is None:
        return
    if gpus == 0:
        yield Problem(
            "budget.gpu_hours",
            "it is never spent, since resources.gpus is 0",
            "write budget.wall_time, or the GPUs a trial uses",
            shown(hours),
        )
        return
    most = gpus * (spec.resources.wall_time_s + spec.evaluator.wall_time_s) / 3600
    if hours < most:
        yield Problem(
            "budget.gpu_hours",
            f"one trial may take {most:g} GPU hours (GPUs times both wall_time limits)",
            "write more, or lower resources.wall_time and evaluator.wall_time",
            shown(hours),
        )


def _stall_time(spec: StudySpec) -> Iterator[Problem]:
    stall_s, wall_s = spec.resources.stall_time_s, spec.resources.wall_time_s
    if stall_s is not None and stall_s >= wall_s:
        yield Problem(
            "resources.stall_time",
            f"it never acts before resources.wall_time ({wall_s:g} s)",
            "write a shorter time or leave it out",
            f"{stall_s:g} s",
        )


def _metrics(spec: StudySpec) -> Iterator[Problem]:
    declared = spec.evaluator.metrics
    yield from _declared("objective.metric", spec.objective.metric, declared)
    seen = {spec.objective.metric}
    for index, objective in enumerate(spec.objectives):
        field = f"objectives[{index}].metric"
        yield from _declared(field, objective.metric, declared)
        if objective.metric in seen:
            yield Problem(
                field, "it is an objective already", "remove it", shown(objective.metric)
            )
        seen.add(objective.metric)
    for name, bounds in spec.constraints.items():
        yield from _declared(path("constraints", name), name, declared)
        if bounds.low is None and bounds.high is None:
            yield Problem(
                path("constraints", name), "it bounds nothing", "write low, high or both"
            )
        if bounds.low is not None and bounds.high is not None and bounds.low > bounds.high:
            yield Problem(
                path("constraints", name, "low"),
                f"low is above high ({shown(bounds.high)}), so no candidate could be kept",
                "swap them, or leave one out",
                shown(bounds.low),
            )
    for name, metric in declared.items():
        if metric.low is not None and metric.high is not None and metric.low >= metric.high:
            yield Problem(
                path("evaluator", "metrics", name, "low"),
                f"low must be below high ({shown(metric.high)})",
                "swap them, or leave one out",
                shown(metric.low),
            )


def _declared(field: str, name: str, declared: Collection[str]) -> Iterator[Problem]:
    if name not in declared:
        near = suggestion(name, list(declared))
        yield Problem(
            field,
            "the evaluator declares no such metric",
            f"write {near} instead" if near else f"add it under evaluator.metrics: {name}: {{}}",
            shown(name),
        )


def _goal(spec: StudySpec) -> Iterator[Problem]:
    metric, goal = spec.evaluator.metrics.get(spec.objective.metric), spec.stop.goal
    if metric is None or goal is None:
        return
    low = -math.inf if metric.low is None else metric.low
    high = math.inf if metric.high is None else metric.high
    if not low <= goal <= high:
        yield Problem(
            "stop.goal",
            f"{spec.objective.metric} is declared from {low:g} to {high:g}",
            "write a value in that range",
            shown(goal),
        )


def _guards(spec: StudySpec) -> Iterator[Problem]:
    for name in spec.promotion.guard if spec.promotion else ():
        field = path("promotion", "guard", name)
        yield from _declared(field, name, spec.evaluator.metrics)
        if name == spec.objective.metric:
            yield Problem(field, "the objective guards itself", "name another metric", shown(name))


def _promotion(spec: StudySpec) -> Iterator[Problem]:
    if spec.promotion is None:
        return
    reported = spec.evaluator.mode == "reported"
    if reported and not spec.promotion.allow_reported:
        yield Problem(
            "promotion",
            "evaluator.mode is reported: a program that reports its own score proves nothing",
            "use an evaluator, or write promotion.allow_reported: true",
        )
    if not reported and "holdout" not in spec.evaluator.splits:
        yield Problem(
            "promotion",
            "the gate needs data that no trial was chosen on",
            "add evaluator.splits.holdout",
        )


def _baselines(spec: StudySpec) -> Iterator[Problem]:
    wanted = spec.noise.baseline_trials
    if spec.promotion is None or wanted is None:
        return
    needed = BASELINES_NEEDED[spec.promotion.profile]
    if wanted < needed:
        yield Problem(
            "noise.baseline_trials",
            f"the {spec.promotion.profile} profile compares with {needed} baseline trials",
            f"write {needed} or more, or leave it out",
            shown(wanted),
        )


_RULES: Final[tuple[tuple[tuple[str, ...], Rule], ...]] = (
    (("pruning",), lambda spec: pruning_problems(spec.pruning)),
    (("proposer",), _proposer),
    (("proposer", "objectives"), _one_objective),
    (("proposer", "program", "space"), _model_proposer),
    (("proposer", "space"), _grid_is_finite),
    (("proposer", "space", "budget", "stop"), _comes_to_an_end),
    (("budget", "resources", "evaluator"), _gpu_budget),
    (("resources",), _stall_time),
    (("objective", "objectives", "constraints", "evaluator"), _metrics),
    (("objective", "evaluator", "stop"), _goal),
    (("objective", "evaluator", "promotion"), _guards),
    (("evaluator", "promotion"), _promotion),
    (("noise", "promotion"), _baselines),
    (("notify",), lambda spec: webhook_problems(spec.notify)),
)
