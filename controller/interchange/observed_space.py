"""The search space of a study that another tool ran: what it declared, what its trials show."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pydantic import TypeAdapter, ValidationError

from controller.spec.documents import Plain
from controller.spec.space import ParameterSpec
from controller.spec.space_rules import is_parameter_name
from controller.spec.translation import problems_of
from controller.steps.importing import ReportedTrial
from ledger.records import Params, ParamValue
from ledger.states import TrialState

Parameter: TypeAlias = dict[str, Plain]
"""As a study file writes it."""

MOST_VALUES: Final = 50
"""Distinct values of one parameter that are told apart; one with more is no condition."""
MOST_PATTERNS: Final = 200
"""Sets of parameters that trials have; with more of them no condition is looked for."""


@dataclass(slots=True)
class _Seen:
    """What the values of one parameter had in common; `values` is None once there are many."""

    values: dict[tuple[type, ParamValue], None] | None = field(default_factory=dict)
    numbers: tuple[float, float] | None = None
    kinds: set[type] = field(default_factory=set)

    def add(self, value: ParamValue) -> None:
        self.kinds.add(type(value))
        if self.values is not None:
            self.values[(type(value), value)] = None
            if len(self.values) > MOST_VALUES:
                self.values = None
        if not isinstance(value, str):
            low, high = self.numbers or (value, value)
            self.numbers = min(low, value), max(high, value)


class Observed:
    """Which parameters complete trials had together, and with which values."""

    def __init__(self) -> None:
        self._patterns: dict[frozenset[str], dict[str, _Seen]] | None = {}
        self._seen: dict[str, _Seen] = {}

    def add(self, trial: ReportedTrial) -> None:
        for name, value in trial.params.items():
            self._seen.setdefault(name, _Seen()).add(value)
        # A trial that failed or was pruned may not have come to all its parameters.
        if self._patterns is None or trial.state is not TrialState.COMPLETE:
            return
        pattern = self._patterns.setdefault(frozenset(trial.params), {})
        for name, value in trial.params.items():
            pattern.setdefault(name, _Seen()).add(value)
        if len(self._patterns) > MOST_PATTERNS:
            self._patterns = None

    def names(self) -> list[str]:
        return sorted(self._seen)

    def parameter(self, name: str) -> Parameter:
        """A range or choices that hold every value seen."""
        seen = self._seen[name]
        if seen.numbers is not None and seen.kinds <= {int, float}:
            low, high = seen.numbers
            if seen.kinds == {int}:
                return {"type": "int", "low": int(low), "high": int(high)}
            return {"type": "float", "low": float(low), "high": float(high)}
        return {"type": "categorical", "choices": [value for _, value in seen.values or ()]}

    def is_partial(self, name: str) -> bool:
        """Whether a complete trial did without it."""
        return any(name not in pattern for pattern in self._patterns or ())

    def condition(self, name: str, parents: Sequence[str]) -> dict[str, list[ParamValue]]:
        """The one of `parents` whose value decided, in every complete trial, whether `name` was
        there, with the values for which it was; empty where none did."""
        patterns = self._patterns or {}
        having = [pattern for names, pattern in patterns.items() if name in names]
        lacking = [pattern for names, pattern in patterns.items() if name not in names]
        if not having or not lacking:
            return {}
        for parent in parents:
            # A parent is there more often than its child, so that no circle can close.
            wider = any(parent in pattern for pattern in lacking)
            if parent == name or not wider or not all(parent in pattern for pattern in having):
                continue
            with_it, without = _values(parent, having), _values(parent, lacking)
            if with_it is not None and without is not None and not with_it & without:
                values = [value for _, value in sorted(with_it, key=repr)]
                return {parent: values}
        return {}


def _values(
    name: str, patterns: Sequence[Mapping[str, _Seen]]
) -> set[tuple[type, ParamValue]] | None:
    found: set[tuple[type, ParamValue]] = set()
    for pattern in patterns:
        if name in pattern:
            values = pattern[name].values
            if values is None:
                return None
            found |= values.keys()
    return found


@dataclass(slots=True)
class Space:
    """A study file's `space`, and in words what could not be said in it."""

    parameters: dict[str, Parameter] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def space_of(declared: Mapping[str, Parameter], observed: Observed) -> Space:
    """Every parameter that was declared, or else seen, with the conditions that the trials show;
    one that a study file cannot have is left out with a note."""
    space = Space()
    for name in sorted({*declared, *observed.names()}):
        parameter = declared.get(name) or observed.parameter(name)
        problem = _problem(name, parameter)
        if problem:
            space.notes.append(f"{name} is not in the space: {problem}")
        else:
            space.parameters[name] = parameter
    choosing = [n for n, p in space.parameters.items() if p["type"] == "categorical"]
    for name, parameter in space.parameters.items():
        if not observed.is_partial(name):
            continue
        when = observed.condition(name, choosing)
        if when:
            parameter["when"] = {parent: list(values) for parent, values in when.items()}
        else:
            space.notes.append(f"{name} is missing in some trials, by no one parameter's value")
    return space


def with_defaults(space: Mapping[str, Parameter], params: Params) -> dict[str, Parameter]:
    """The same space with `params` as what the baseline uses, where they are allowed."""
    found: dict[str, Parameter] = {}
    for name, parameter in space.items():
        wanted = {**parameter, "default": params[name]} if name in params else parameter
        found[name] = parameter if _problem(name, wanted) else wanted
    return found


def _problem(name: str, parameter: Parameter) -> str:
    """Why a study file cannot have the parameter; empty when it can."""
    if not is_parameter_name(name):
        return "a parameter's name has letters, digits and _ only, and is not seed"
    return "; ".join(_faults(parameter))


def _faults(parameter: Parameter) -> Iterator[str]:
    adapter: TypeAdapter[ParameterSpec] = TypeAdapter(ParameterSpec)
    try:
        adapter.validate_python(parameter, strict=False)
    except ValidationError as error:
        yield from (problem.rule for problem in problems_of(error))
