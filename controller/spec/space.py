"""The `space` section: one model per kind of parameter, and the distributions made of them."""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from controller.spec.errors import Problem, shown
from controller.spec.strict import SAFE_INTEGER, Strict, refusal
from ledger.records import ParamValue
from proposers.search_space import (
    Categorical,
    Conditions,
    Distribution,
    Float,
    Int,
    SearchSpace,
    describe,
    in_order,
    is_active,
)


def _parameter_value(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise PydanticCustomError(
            "arl",
            "{rule}; {remedy}",
            {
                "rule": "a parameter's value is true, false, a number or text",
                "remedy": "write one of those",
            },
        )
    return value


Choice: TypeAlias = Annotated[ParamValue, BeforeValidator(_parameter_value)]


class _Parameter(Strict):
    """What every kind of parameter may say."""

    when: dict[str, Choice | Annotated[tuple[Choice, ...], Field(min_length=1)]] = Field(
        default_factory=dict
    )
    """The parameter exists only when each of these categorical parameters has the value, or one
    of the values; default: always."""

    def conditions(self) -> Conditions:
        return tuple(
            (name, values if isinstance(values, tuple) else (values,))
            for name, values in sorted(self.when.items())
        )


class FloatSpec(_Parameter):
    """A real number from low to high."""

    type: Literal["float"]
    low: float
    high: float
    log: bool = False
    """Draw uniformly in the logarithm: for values that differ by factors, like a learning rate."""
    step: float | None = None
    """Only low, low + step, low + 2 step, …; what a grid needs."""
    default: float | None = None
    """What the baseline uses; default: the middle."""

    @model_validator(mode="after")
    def _check(self) -> "FloatSpec":
        problems = [*_range_problems(self.low, self.high, log=self.log), *self._step_problems()]
        if not problems:
            problems = list(_default_problems(self.default, distribution(self)))
        if problems:
            raise refusal(problems)
        return self

    def _step_problems(self) -> Iterator[Problem]:
        if self.step is None:
            return
        if self.step <= 0:
            yield Problem("step", "a step is above 0", "write a positive one", shown(self.step))
        elif self.low < self.high and self.step > self.high - self.low:
            yield _long_step(self.step, self.low, self.high)
        elif self.step < 2 * math.ulp(max(abs(self.low), abs(self.high))):
            yield Problem(
                "step",
                "it is smaller than the distance between two floats here",
                "leave it out or write a larger one",
                shown(self.step),
            )


class IntSpec(_Parameter):
    """A whole number from low to high, both included."""

    type: Literal["int"]
    low: int
    high: int
    log: bool = False
    """Draw uniformly in the logarithm: for values that differ by factors, like a batch size."""
    step: int = 1
    """Only low, low + step, low + 2 step, …"""
    default: int | None = None
    """What the baseline uses; default: the middle."""

    @model_validator(mode="after")
    def _check(self) -> "IntSpec":
        problems = [*_range_problems(self.low, self.high, log=self.log), *self._own_problems()]
        if not problems:
            problems = list(_default_problems(self.default, distribution(self)))
        if problems:
            raise refusal(problems)
        return self

    def _own_problems(self) -> Iterator[Problem]:
        if self.step < 1:
            yield Problem("step", "a step is at least 1", "write 1 or more", shown(self.step))
        elif self.low < self.high and self.step > self.high - self.low:
            yield _long_step(self.step, self.low, self.high)
        for name, bound in (("low", self.low), ("high", self.high)):
            if abs(bound) > SAFE_INTEGER:
                yield Problem(
                    name,
                    "integers beyond 2^53 change in programs that read JSON numbers as floats",
                    "write a smaller one",
                    shown(bound),
                )


class CategoricalSpec(_Parameter):
    """One of several values, in no order."""

    type: Literal["categorical"]
    choices: tuple[Choice, ...]
    """true, false, numbers or text; the usual one first."""
    default: Choice | None = None
    """What the baseline uses; default: the first choice."""

    @model_validator(mode="after")
    def _check(self) -> "CategoricalSpec":
        problems = list(self._choice_problems())
        if not problems:
            problems = list(_default_problems(self.default, distribution(self)))
        if problems:
            raise refusal(problems)
        return self

    def _choice_problems(self) -> Iterator[Problem]:
        if len(self.choices) < 2:
            rule = "one choice is a constant" if self.choices else "there is nothing to choose"
            yield Problem(
                "choices",
                rule,
                "write at least two, or a constant in program.options",
                shown(self.choices),
            )
        for index, choice in enumerate(self.choices):
            if any(_is_same(choice, earlier) for earlier in self.choices[:index]):
                yield Problem(
                    f"choices[{index}]", "the choice is there twice", "remove one", shown(choice)
                )
            if isinstance(choice, float) and not math.isfinite(choice):
                yield Problem(
                    f"choices[{index}]", "numbers must be finite", "remove it", shown(choice)
                )


ParameterSpec: TypeAlias = Annotated[
    FloatSpec | IntSpec | CategoricalSpec, Field(discriminator="type")
]


def distribution(p: FloatSpec | IntSpec | CategoricalSpec) -> Distribution:
    """The distribution a parameter describes."""
    match p:
        case FloatSpec():
            return Float(p.low, p.high, p.log, p.step, p.conditions())
        case IntSpec():
            return Int(p.low, p.high, p.log, p.step, p.conditions())
        case CategoricalSpec():
            return Categorical(p.choices, p.conditions())


def search_space(space: Mapping[str, ParameterSpec]) -> SearchSpace:
    """What the proposers get of a study's `space`."""
    return {name: distribution(parameter) for name, parameter in space.items()}


def baseline_params(space: Mapping[str, ParameterSpec]) -> dict[str, ParamValue]:
    """What the baseline runs with, of every parameter that exists: its declared default, else its
    middle (in the logarithm where `log` is set, on the nearest step; the first choice)."""
    distributions = search_space(space)
    params: dict[str, ParamValue] = {}
    for name in in_order(distributions):
        if is_active(distributions, name, params):
            default = space[name].default
            params[name] = distributions[name].middle() if default is None else default
    return dict(sorted(params.items()))


def _range_problems(low: float, high: float, *, log: bool) -> Iterator[Problem]:
    if low == high:
        yield Problem(
            "low",
            "low equals high, so there is nothing to search",
            "use a constant in program.options",
            shown(low),
        )
    elif low > high:
        yield Problem("low", f"low is above high ({shown(high)})", "swap them", shown(low))
    if log and low <= 0:
        yield Problem(
            "low",
            "a log range starts above 0",
            "write a positive low, or log: false",
            shown(low),
        )


def _long_step(step: float, low: float, high: float) -> Problem:
    return Problem(
        "step",
        f"the step is larger than the range ({shown(low)} to {shown(high)})",
        "write a smaller one",
        shown(step),
    )


def _default_problems(default: ParamValue | None, allowed: Distribution) -> Iterator[Problem]:
    if default is not None and not allowed.contains(default):
        yield Problem(
            "default",
            f"the default is outside {describe(allowed)}",
            "write one inside",
            shown(default),
        )


def _is_same(a: ParamValue, b: ParamValue) -> bool:
    """Equal for a reader: 1 and 1.0 are, 1 and true are not."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)
