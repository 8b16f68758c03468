"""Parameters that exist only under conditions: read, refused, sampled, counted."""

import random

import pytest

from controller.spec.errors import StudyRefused
from controller.spec.loading import parse_study
from controller.spec.space import baseline_params, search_space
from proposers.search_space import cardinality, faults, point, sample
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
    with pytest.raises(IndexError):
        point(space, 21)


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
