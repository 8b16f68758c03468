"""The rules of a parameter of the space: the field, the value, and what to write instead."""

import math

import pytest

from controller.spec.errors import StudyRefused
from controller.spec.loading import parse_study
from tests.unit.controller.study_documents import COMMAND, changed, study


def problems(document: object) -> list[str]:
    with pytest.raises(StudyRefused) as refused:
        parse_study(document)
    return [str(problem) for problem in refused.value.problems]


def only_problem(document: object) -> str:
    found = problems(document)
    assert len(found) == 1, found
    return found[0]


def parameter(**fields: object) -> dict[str, object]:
    return changed(COMMAND, space__x=fields)


PARAMETERS: list[tuple[dict[str, object], str]] = [
    (
        {"type": "float", "low": 0.1, "high": 0.1},
        "space.x.low: 0.1: low equals high, so there is nothing to search; "
        "use a constant in program.options",
    ),
    (
        {"type": "int", "low": 3, "high": 3},
        "space.x.low: 3: low equals high, so there is nothing to search; "
        "use a constant in program.options",
    ),
    (
        {"type": "float", "low": 2, "high": 1},
        "space.x.low: 2.0: low is above high (1.0); swap them",
    ),
    (
        {"type": "float", "low": 0, "high": 1, "log": True},
        "space.x.low: 0.0: a log range starts above 0; write a positive low, or log: false",
    ),
    (
        {"type": "int", "low": -1, "high": 5, "log": True},
        "space.x.low: -1: a log range starts above 0; write a positive low, or log: false",
    ),
    (
        {"type": "float", "low": 0, "high": 1, "step": 0},
        "space.x.step: 0.0: a step is above 0; write a positive one",
    ),
    (
        {"type": "float", "low": 0, "high": 1, "step": -0.1},
        "space.x.step: -0.1: a step is above 0; write a positive one",
    ),
    (
        {"type": "float", "low": 0, "high": 1, "step": 2},
        "space.x.step: 2.0: the step is larger than the range (0.0 to 1.0); write a smaller one",
    ),
    (
        {"type": "float", "low": 1e16, "high": 2e16, "step": 1},
        "space.x.step: 1.0: it is smaller than the distance between two floats here; "
        "leave it out or write a larger one",
    ),
    (
        {"type": "int", "low": 0, "high": 9, "step": 0},
        "space.x.step: 0: a step is at least 1; write 1 or more",
    ),
    (
        {"type": "int", "low": 0, "high": 9, "step": 10},
        "space.x.step: 10: the step is larger than the range (0 to 9); write a smaller one",
    ),
    (
        {"type": "int", "low": 0, "high": 2**53},
        f"space.x.high: {2**53}: integers beyond 2^53 change in programs that read JSON numbers "
        "as floats; write a smaller one",
    ),
    (
        {"type": "int", "low": 0.5, "high": 9},
        "space.x.low: 0.5: it must be a whole number; write one without a point",
    ),
    (
        {"type": "int", "low": True, "high": 9},
        "space.x.low: true: it must be a whole number; write one without a point",
    ),
    (
        {"type": "float", "low": "1e-4", "high": 1},
        'space.x.low: "1e-4": it must be a number; write one without quotes',
    ),
    (
        {"type": "float", "low": 0, "high": math.inf},
        "space.x.high: Infinity: numbers must be finite; write a finite number",
    ),
    (
        {"type": "float", "low": math.nan, "high": 1},
        "space.x.low: NaN: numbers must be finite; write a finite number",
    ),
    (
        {"type": "float", "low": 0, "high": 1, "default": 1.5},
        "space.x.default: 1.5: the default is outside the floats from 0.0 to 1.0; "
        "write one inside",
    ),
    (
        {"type": "float", "low": 0, "high": 1, "step": 0.5, "default": 0.4},
        "space.x.default: 0.4: the default is outside the floats from 0.0 to 1.0 in steps of 0.5; "
        "write one inside",
    ),
    (
        {"type": "int", "low": 4, "high": 16, "step": 4, "default": 5},
        "space.x.default: 5: the default is outside the integers from 4 to 16 in steps of 4; "
        "write one inside",
    ),
    (
        {"type": "categorical", "choices": ["a", "b"], "default": "c"},
        "space.x.default: \"c\": the default is outside the choices 'a', 'b'; write one inside",
    ),
    (
        {"type": "categorical", "choices": []},
        "space.x.choices: []: there is nothing to choose; "
        "write at least two, or a constant in program.options",
    ),
    (
        {"type": "categorical", "choices": ["a"]},
        'space.x.choices: ["a"]: one choice is a constant; '
        "write at least two, or a constant in program.options",
    ),
    (
        {"type": "categorical", "choices": ["a", "b", "a"]},
        'space.x.choices[2]: "a": the choice is there twice; remove one',
    ),
    (
        {"type": "categorical", "choices": [1, 1.0]},
        "space.x.choices[1]: 1.0: the choice is there twice; remove one",
    ),
    (
        {"type": "categorical", "choices": [1, math.inf]},
        "space.x.choices[1]: Infinity: numbers must be finite; write a finite number",
    ),
    (
        {"type": "categorical", "choices": ["a", ["b"]]},
        'space.x.choices[1]: ["b"]: a parameter\'s value is true, false, a number or text; '
        "write one of those",
    ),
    (
        {"type": "float", "low": 0, "high": 1, "when": {"loss": "dapo"}},
        "space.x.when.loss: a condition is about a categorical parameter; remove it",
    ),
    (
        {"type": "float", "low": 0, "high": 1, "steps": 3},
        "space.x.steps: 3: no such key; write step instead",
    ),
    ({"low": 0, "high": 1}, "space.x.type: this key is needed; write float, int or categorical"),
    (
        {"type": "integer", "low": 0, "high": 1},
        'space.x.type: "integer": no such value; write int instead',
    ),
    ({"type": "float", "low": 0}, "space.x.high: this key is needed; add it"),
]


@pytest.mark.parametrize(("fields", "message"), PARAMETERS)
def test_a_wrong_parameter_is_refused_with_what_to_write_instead(
    fields: dict[str, object], message: str
) -> None:
    assert message in problems(parameter(**fields))


def test_true_and_one_are_different_choices() -> None:
    assert study(space__x={"type": "categorical", "choices": [1, True]}).space["x"]


@pytest.mark.parametrize("name", ["seed", "Seed"])
def test_the_seed_is_never_searched(name: str) -> None:
    document = changed(COMMAND, **{f"space__{name}": {"type": "int", "low": 0, "high": 9}})
    assert f"space.{name}: the seed is never searched" in only_problem(document)


@pytest.mark.parametrize("name", ["a-b", "1st", "", "x.y", "ü", "x" * 101])
def test_a_parameters_name_is_an_identifier(name: str) -> None:
    document = changed(COMMAND)
    document["space"] = {name: {"type": "int", "low": 0, "high": 9}}
    assert "a parameter's name has letters, digits and _ only" in only_problem(document)
