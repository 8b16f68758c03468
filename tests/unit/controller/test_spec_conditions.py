"""Parameters that exist only under conditions: read, refused, sampled, counted."""

import random
from collections.abc import Iterator

import pytest

from controller.spec.errors import StudyRefused
from controller.spec.loading import parse_study
from controller.spec.space import baseline_params, search_space
from ledger.records import Params
from proposers.search_space import (
    Categorical,
    Distribution,
    Int,
    SearchSpace,
    cardinality,
    faults,
    in_order,
    is_active,
    point,
    sample,
)
from tests.unit.controller.study_documents import COMMAND, changed

SPACE = {
    "loss": {"type": "categorical", "choices": ["grpo", "dapo", "dr_grpo"]},
    "clip": {"type": "float", "low": 0.1, "high": 0.3, "step": 0.1, "when": {"loss": "dapo"}},
    "mask": {
        "type": "categorical",
        "choices": [True, False],
        "when": {"loss": ["dapo", "dr_grpo"]},
    },
    "width": {"type": "int", "low": 1, "high": 4, "when": {"mask": True}},
}


def problems(space: dict[str, object]) -> list[str]:
    with pytest.raises(StudyRefused) as refused:
        parse_study(changed(COMMAND, space=space))
    return [str(problem) for problem in refused.value.problems]


def test_a_condition_on_what_is_no_categorical_parameter_is_refused() -> None:
    number = {"type": "int", "low": 1, "high": 2}
    assert problems({"a": {**number, "when": {"b": 1}}, "b": number}) == [
        "space.a.when.b: a condition is about a categorical parameter; remove it"
    ]
    assert problems({"a": {**number, "when": {"lost": 1}}, "loss": SPACE["loss"]}) == [
        "space.a.when.lost: a condition is about a categorical parameter; write one of loss"
    ]


def test_a_condition_that_never_holds_is_refused() -> None:
    space = {**SPACE, "clip": {**SPACE["clip"], "when": {"loss": "ppo"}}}
    assert problems(space) == [
        'space.clip.when.loss: "ppo": loss never has this value; '
        "write one of the choices 'grpo', 'dapo', 'dr_grpo'"
    ]


def test_conditions_in_a_circle_are_refused() -> None:
    yes_no = {"type": "categorical", "choices": [True, False]}
    space = {"a": {**yes_no, "when": {"b": True}}, "b": {**yes_no, "when": {"a": True}}}
    assert problems(space) == ["space: conditions of a, b lead to no parameter; remove the circle"]


def test_the_baseline_has_only_the_parameters_that_exist() -> None:
    spec = parse_study(changed(COMMAND, space=SPACE))
    assert baseline_params(spec.space) == {"loss": "grpo"}


def test_every_point_of_a_conditional_space_is_counted_once_and_valid() -> None:
    space = search_space(parse_study(changed(COMMAND, space=SPACE)).space)
    # grpo alone; dapo x 3 clips x (mask with 4 widths, or none); dr_grpo the same without clip
    assert cardinality(space) == 1 + 3 * 5 + 5
    points = [point(space, index) for index in range(21)]
    assert len({repr(p) for p in points}) == 21
    assert all(list(faults(space, p)) == [] for p in points)
    assert points == list(walked(space, in_order(space), {}))
    with pytest.raises(IndexError):
        point(space, 21)


def walked(space: SearchSpace, names: list[str], params: Params) -> Iterator[Params]:
    """All points by trying everything, the last parameter changing fastest."""
    if not names:
        yield dict(sorted(params.items()))
    elif not is_active(space, names[0], params):
        yield from walked(space, names[1:], params)
    else:
        for index in range(space[names[0]].size or 0):
            value = space[names[0]].at(index)
            yield from walked(space, names[1:], {**params, names[0]: value})


@pytest.mark.parametrize("seed", range(20))
def test_points_come_in_one_order_whatever_conditions_tie_together(seed: int) -> None:
    rng = random.Random(seed)
    space: dict[str, Distribution] = {}
    for n in range(7):
        parents = [p for p in space if isinstance(space[p], Categorical) and rng.random() < 0.4]
        when = tuple((p, (space[p].at(rng.randrange(2)),)) for p in parents)
        is_choice = rng.random() < 0.6
        name = f"{rng.choice('abc')}{n}"
        space[name] = Categorical((1, "1", True), when) if is_choice else Int(0, 2, when=when)
    size = cardinality(space)
    assert size is not None
    assert [point(space, i) for i in range(size)] == list(walked(space, in_order(space), {}))


def test_draws_hold_what_exists_and_nothing_else() -> None:
    space = search_space(parse_study(changed(COMMAND, space=SPACE)).space)
    rng = random.Random(1)
    drawn = [sample(space, rng) for _ in range(300)]
    assert all(list(faults(space, p)) == [] for p in drawn)
    assert {frozenset(p) for p in drawn} == {
        frozenset({"loss"}),
        frozenset({"loss", "mask"}),
        frozenset({"loss", "mask", "width"}),
        frozenset({"loss", "mask", "clip"}),
        frozenset({"loss", "mask", "clip", "width"}),
    }


def test_a_parameter_that_does_not_exist_here_is_a_fault_that_says_when_it_does() -> None:
    space = search_space(parse_study(changed(COMMAND, space=SPACE)).space)
    assert list(faults(space, {"loss": "grpo", "clip": 0.1})) == [
        "clip exists only when loss is 'dapo'"
    ]
    assert list(faults(space, {"loss": "dr_grpo", "mask": True})) == ["width is missing"]


def toggles(count: int, *, tied: bool = False) -> dict[str, object]:
    """Switches, each with a number that exists while it (and, tied, the next one) is on."""
    space: dict[str, object] = {}
    for n in range(count):
        about = {f"use_{n}": True} | ({f"use_{(n + 1) % count}": True} if tied else {})
        space[f"use_{n}"] = {"type": "categorical", "choices": [True, False]}
        space[f"x_{n}"] = {"type": "int", "low": 1, "high": 4, "when": about}
    return space


def test_many_independent_conditions_are_counted_at_once() -> None:
    spec = parse_study(changed(COMMAND, space=toggles(40)))
    found = search_space(spec.space)
    assert cardinality(found) == 5**40
    last = point(found, 5**40 - 1)
    assert last == {f"use_{n}": False for n in range(40)}
    assert list(faults(found, point(found, 5**39 + 7))) == []


def test_a_space_of_many_parameters_is_counted() -> None:
    numbers = {f"x_{n}": {"type": "int", "low": 0, "high": 1} for n in range(600)}
    spec = parse_study(changed(COMMAND, space=numbers))
    assert cardinality(search_space(spec.space)) == 2**600


def test_conditions_that_tie_too_much_together_are_refused() -> None:
    assert parse_study(changed(COMMAND, space=toggles(10, tied=True))).space
    assert problems(toggles(30, tied=True)) == [
        f"space: conditions tie parameters together that have {2**30} combinations, and at most "
        "100000 are counted; let conditions name fewer parameters at once, or give a float range "
        "no step"
    ]
