"""The study file's `program.plan`: the axes that are stated, and what the planner says of them."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from pydantic import Field, create_model

from controller.spec.errors import Problem, shown
from controller.spec.space import baseline_params
from controller.spec.strict import Strict
from inner_trials.plan import AXES, Plan, PlanRefused, refusals
from inner_trials.planning.axes import COUNTS, OPTIONAL_COUNTS, SWITCHES, VALUES
from inner_trials.planning.contradictions import contradictions, deciding
from inner_trials.planning.kinds import axis_of, plan_of, settings_of
from inner_trials.planning.meanings import MEANINGS
from inner_trials.planning.runnable import unrunnable
from ledger.records import Json, Params

if TYPE_CHECKING:
    from controller.spec.study import StudySpec


class StatedAxes(Strict):
    """The axes of the post-training system that a study states. One that is left out follows
    from the program's kind, its settings and the other axes; docs/planner.md has the rules."""

    def stated(self) -> dict[str, Json]:
        """What is said, by axis."""
        return cast("dict[str, Json]", self.model_dump(exclude_none=True))


def _field(axis: str) -> Any:
    extra: dict[str, Any] = {}
    kind: type = str
    if axis in VALUES:
        extra = {"json_schema_extra": {"enum": list(VALUES[axis])}}
    elif axis in SWITCHES:
        kind = bool
    elif axis in COUNTS or axis in OPTIONAL_COUNTS:
        kind = int
    typed: Any = Annotated[kind, Field(**extra)]
    return (typed | None, Field(default=None, description=MEANINGS[axis]))


if TYPE_CHECKING:
    PlanSpec: TypeAlias = StatedAxes
else:
    PlanSpec = create_model(
        "PlanSpec",
        __base__=StatedAxes,
        __doc__=StatedAxes.__doc__,
        **{axis: _field(axis) for axis in AXES},
    )


def stated_axes(spec: "StudySpec") -> dict[str, Json]:
    """What the study states of its plan."""
    return {} if spec.program.plan is None else spec.program.plan.stated()


def study_plan(spec: "StudySpec", params: Params) -> Plan | None:
    """The whole plan of a trial with these parameters; None for a command that states none.

    Raises PlanRefused for what contradicts itself; whether the plan is valid is for
    `plan_refusals` to say.
    """
    program, stated = spec.program, stated_axes(spec)
    if program.kind == "command" and not stated:
        return None
    settings = {
        name: value
        for name, value in {**program.options, **params}.items()
        if program.kind != "command" or _is_axis(spec, name, value)
    }
    gpus = spec.resources.gpus
    return plan_of(spec.name, program.kind, stated, settings, inputs=program.data, gpus=gpus)


def plan_refusals(spec: "StudySpec", params: Params) -> Iterator[PlanRefused]:
    """Everything that is wrong with the plan of a trial with these parameters."""
    try:
        plan = study_plan(spec, params)
    except PlanRefused as refusal:
        yield refusal
        return
    if plan is None:
        return
    found = list(refusals(plan)) or list(unrunnable(plan, spec.program.kind))
    settings = {**spec.program.options, **params}
    yield from found or contradictions(plan, spec.program.kind, settings, spec.program.data)


def searched_axes(spec: "StudySpec") -> dict[str, str]:
    """The parameters of the space that are axes: by the axis, the parameter."""
    kind = spec.program.kind
    if kind == "command" and not stated_axes(spec):
        return {}
    return {axis_of(kind, name): name for name in spec.space if _is_axis(spec, name, None)}


def _is_axis(spec: "StudySpec", name: str, value: object) -> bool:
    """Whether an option or parameter is an axis. A command's own setting may have an axis's name
    by chance, like an optimizer that is adamw or sgd: it is one if it knows a word of the axis."""
    axis = axis_of(spec.program.kind, name)
    if not axis or spec.program.kind != "command" or axis not in VALUES:
        return bool(axis)
    parameter = spec.space.get(name)
    words = (value,) if parameter is None else getattr(parameter, "choices", ())
    return any(isinstance(word, str) and word in VALUES[axis] for word in words)


def plan_fault(spec: "StudySpec", params: Params) -> str:
    """Why a trial with these parameters could not be right; nothing when it can. Quick where no
    parameter is an axis: the study's own plan was checked when it was submitted."""
    if not searched_axes(spec) and deciding(spec.program.kind).isdisjoint(spec.space):
        return ""
    refusal = next(plan_refusals(spec, params), None)
    return "" if refusal is None else refusal.sentence


def plan_problems(spec: "StudySpec") -> Iterator[Problem]:
    """What is wrong with the plan that the baseline would run."""
    searched, stated = searched_axes(spec), stated_axes(spec)
    both = [axis for axis in stated if axis in searched]
    for axis in both:
        yield Problem(
            f"program.plan.{axis}",
            f"space.{searched[axis]} searches it",
            "leave it out of the plan, or out of the space",
            shown(stated[axis]),
        )
    if both:
        return
    for refusal in plan_refusals(spec, baseline_params(spec.space)):
        yield _problem(spec, refusal, searched)
    yield from _gpu_problems(spec, stated)


def _problem(spec: "StudySpec", refusal: PlanRefused, searched: Mapping[str, str]) -> Problem:
    """A refusal in the study file's words, about what the file says of the axis."""
    field, rule = f"program.plan.{refusal.axis}", refusal.rule
    if refusal.axis in searched:
        field, rule = f"space.{searched[refusal.axis]}", f"the baseline's: {rule}"
    elif refusal.axis not in stated_axes(spec):
        said = {axis_of(spec.program.kind, name): name for name in spec.program.options}
        if refusal.axis in said:
            field = f"program.options.{said[refusal.axis]}"
    return Problem(field, rule, refusal.fix, "" if refusal.value is None else shown(refusal.value))


def _gpu_problems(spec: "StudySpec", stated: Mapping[str, Json]) -> Iterator[Problem]:
    gpus = stated.get("trainer_gpus")
    if isinstance(gpus, int) and gpus > spec.resources.gpus:
        yield Problem(
            "program.plan.trainer_gpus",
            f"a trial gets {spec.resources.gpus} GPUs (resources.gpus)",
            "write resources.gpus so, or fewer here",
            shown(gpus),
        )


def whole_plan(spec: "StudySpec") -> "StatedAxes | None":
    """What is stored of an accepted study: every axis of its plan but those that are searched, so
    that no later version reads another plan into it."""
    plan = study_plan(spec, baseline_params(spec.space))
    if plan is None:
        return None
    left_out = {"name", *_following(spec)}
    axes = {axis: value for axis, value in asdict(plan).items() if axis not in left_out}
    return PlanSpec.model_validate(axes)


def _following(spec: "StudySpec") -> set[str]:
    """Axes that differ from trial to trial: searched ones, and what follows from those."""
    searched, stated = set(searched_axes(spec)), stated_axes(spec)
    follows = {"rollout_precision": "train_precision", "sync": "rollout", "correction": "rollout"}
    return searched | {a for a, of in follows.items() if of in searched and a not in stated}


def plan_document(spec: "StudySpec", params: Params) -> dict[str, Json] | None:
    """The whole plan of a trial with these parameters, for its program to read."""
    plan = study_plan(spec, params)
    return None if plan is None else asdict(plan)


def planned_settings(spec: "StudySpec") -> dict[str, Json]:
    """What the plan says to a built-in program, by the program's own names."""
    if spec.program.kind == "command":
        return {}
    return cast("dict[str, Json]", settings_of(spec.program.kind, stated_axes(spec)))
