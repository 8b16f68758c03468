"""The rules of the `space` section."""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from controller.spec.errors import Problem, path, shown
from controller.spec.space import CategoricalSpec, distribution, search_space
from controller.spec.study import StudySpec
from proposers.search_space import SearchSpace, combinations, describe, in_order

Rule: TypeAlias = Callable[[StudySpec], Iterator[Problem]]

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_CHARS: Final = 100
_MOST_CASES: Final = 100_000


def is_parameter_name(name: str) -> bool:
    """Whether a space may have a parameter of that name."""
    fits = _IDENTIFIER.fullmatch(name) is not None and len(name) <= _NAME_CHARS
    return fits and name.lower() != "seed"


def _parameter_names(spec: StudySpec) -> Iterator[Problem]:
    for name in spec.space:
        if name.lower() == "seed":
            yield Problem(
                f"space.{name}",
                "the seed is never searched: a lucky seed is not an improvement",
                "remove it; every trial gets a seed of its own and winners must win on fresh ones",
            )
        elif not is_parameter_name(name):
            yield Problem(
                path("space", name),
                "a parameter's name has letters, digits and _ only, and starts with no digit",
                "write such a name",
                shown(name),
            )


def broken_conditions(spec: StudySpec) -> Iterator[Problem]:
    """What a parameter depends on is a categorical one, with values that it can have. While that
    is not so, nothing else can be said of the space."""
    problems = [p for name in spec.space for p in _conditions_of(spec, name)]
    yield from problems
    if problems:
        return
    space = search_space(spec.space)
    try:
        in_order(space)
    except ValueError as error:
        yield Problem("space", str(error), "remove the circle")
    else:
        yield from _countable(space)


def _conditions_of(spec: StudySpec, name: str) -> Iterator[Problem]:
    for parent, values in spec.space[name].conditions():
        field, about = path("space", name, "when", parent), spec.space.get(parent)
        if not isinstance(about, CategoricalSpec):
            others = [n for n, p in spec.space.items() if isinstance(p, CategoricalSpec)]
            yield Problem(
                field,
                "a condition is about a categorical parameter",
                f"write one of {', '.join(sorted(others))}" if others else "remove it",
            )
            continue
        allowed = distribution(about)
        for value in values:
            if not allowed.contains(value):
                rule = f"{parent} never has this value"
                yield Problem(field, rule, f"write one of {describe(allowed)}", shown(value))


def _countable(space: SearchSpace) -> Iterator[Problem]:
    """A finite space is counted, to know when it is exhausted."""
    if any(distribution.size is None for distribution in space.values()):
        return
    cases = combinations(space)
    if cases > _MOST_CASES:
        yield Problem(
            "space",
            f"conditions tie parameters together that have {cases} combinations, and at most "
            f"{_MOST_CASES} are counted",
            "let conditions name fewer parameters at once, or give a float range no step",
        )


def _something_to_try(spec: StudySpec) -> Iterator[Problem]:
    if not spec.space and not spec.program.mutable:
        yield Problem(
            "space",
            "there is nothing to try",
            "add parameters, or files a patch may change under program.mutable",
        )


SPACE_RULES: Final[tuple[tuple[tuple[str, ...], Rule], ...]] = (
    (("space",), _parameter_names),
    (("space", "program"), _something_to_try),
)
