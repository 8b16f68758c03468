"""The `convert` section: what it may say of which study, and its defaults."""

from typing import Any

import pytest

from controller.decisions.profiles import PROFILES
from controller.spec.convert_rules import CONFIRMATIONS, parse_conversion, resolved_conversion
from controller.spec.errors import StudyRefused
from controller.spec.loading import json_schema, parse_study, resolved
from controller.spec.study import StudySpec
from ledger.errors import InvalidInput
from tests.unit.controller.study_documents import COMMAND, REMOVE, SFT, changed

LORA = {"parameterization": "lora", "keep_adapter": True}
PROMOTED: dict[str, Any] = {"promotion": {"model": "toy", "profile": "quick"}, "noise": {}}


def study(*conversions: dict[str, Any], **more: Any) -> StudySpec:
    return parse_study(changed(SFT, convert=list(conversions), **PROMOTED, **more))


def refusals(*conversions: dict[str, Any], **more: Any) -> str:
    with pytest.raises(StudyRefused) as refused:
        study(*conversions, **more)
    return "\n".join(str(problem) for problem in refused.value.problems)


def test_every_conversion_is_accepted_where_it_makes_sense() -> None:
    made = study(
        {"merge": True},
        {"merge": False},
        {"quantize": "int8"},
        {"quantize": "int4", "group_size": 64},
        {"quantize": "gptq", "calibration_rows": 16},
        {"quantize": "awq", "margin": 0.1, "alpha": 0.01, "seeds": 4},
        program__options=LORA,
    )
    assert [c.method for c in made.convert] == ["merge", "keep", "int8", "int4", "gptq", "awq"]
    assert parse_study(resolved(made)) == made


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "convert[0]: it says nothing to do"),
        ({"margin": 0.1}, "convert[0]: it says nothing to do"),
        ({"quantize": "int8", "merge": False}, "convert[0].merge: false: quantize works on"),
        ({"merge": True}, "convert[0].merge: true: the program trains all weights"),
        ({"quantize": "int2"}, 'convert[0].quantize: "int2": no such value'),
        ({"quantize": "int8", "margin": -0.1}, "convert[0].margin: -0.1: it must be above 0"),
        ({"quantize": "int8", "margin": 0}, "convert[0].margin: 0: it must be above 0"),
        ({"quantize": "int8", "group_size": 32}, "convert[0].group_size: 32: int8 has a scale"),
        ({"quantize": "int4", "calibration_rows": 9}, "calibration_rows: 9: int4 is not calib"),
        ({"quantize": "int8", "seeds": 5}, "convert[0].seeds: 5: the winner has 4 confirmation"),
        ({"quantise": "int8"}, 'convert[0].quantise: "int8": no such key; write quantize'),
    ],
)
def test_what_makes_no_sense_names_the_field_the_value_and_what_to_write(
    wanted: dict[str, Any], said: str
) -> None:
    assert said in refusals(wanted)


def test_an_adapter_that_the_program_does_not_keep_cannot_be_merged_again() -> None:
    said = refusals({"merge": True}, program__options={"parameterization": "lora"})
    assert "write program.options.keep_adapter: true" in said


def test_the_same_conversion_twice_is_told() -> None:
    said = refusals({"quantize": "int8"}, {"quantize": "int8"})
    assert "convert[1]: int8: it is there already" in said


def test_nothing_is_converted_without_a_promotion_or_an_evaluator_that_loads_it() -> None:
    wanted = [{"quantize": "int8"}]
    with pytest.raises(StudyRefused, match="only a promoted model is converted"):
        parse_study(changed(SFT, convert=wanted, promotion=REMOVE))
    trusting = {"model": "toy", "profile": "quick", "allow_reported": True}
    with pytest.raises(StudyRefused, match="judged by an evaluator that loads it"):
        parse_study(changed(COMMAND, convert=wanted, promotion=trusting))


def test_the_margin_is_two_percent_of_the_declared_range_or_has_to_be_said() -> None:
    made = study({"quantize": "int4"})
    settings = resolved_conversion(made, made.convert[0])
    assert settings == {
        "method": "int4",
        "margin": 0.02,
        "alpha": 0.05,
        "seeds": 1,
        "python": None,
        "group_size": 32,
    }
    metric = made.objective.metric
    open_range = {metric: {"low": 0.0}}
    said = refusals({"quantize": "int4"}, evaluator__metrics=open_range)
    assert f"convert[0].margin: evaluator.metrics.{metric} declares no range" in said
    assert study({"quantize": "int4", "margin": 3.5}, evaluator__metrics=open_range).convert


def test_a_conversion_by_hand_is_held_to_the_same_rules() -> None:
    made = study()
    assert parse_conversion(made, {"quantize": "int8"}).method == "int8"
    for wanted, said in (
        ({"quantize": "int8", "margin": -1}, "it must be above 0"),
        ({"merge": True}, "the program trains all weights"),
        ("int8", "this section is a mapping"),
        ({"quantize": "int8", "x": 1}, "no such key"),
    ):
        with pytest.raises(InvalidInput, match=said):
            parse_conversion(made, wanted)


def test_the_profiles_confirm_with_as_many_runs_as_the_rules_say() -> None:
    assert {name: profile.n_new for name, profile in PROFILES.items()} == CONFIRMATIONS


def test_the_schema_tells_editors_of_conversions() -> None:
    text = str(json_schema())
    assert "ConvertSpec" in text
    assert "gptq" in text


def test_an_adapter_that_stands_on_another_one_cannot_be_merged_into_the_base_alone() -> None:
    data = {**SFT["program"].get("data", {}), "adapter": "earlier"}
    for merge in (True, False):
        said = refusals({"merge": merge}, program__options=LORA, program__data=data)
        assert "program.data.adapter is merged into the base before training" in said
    assert study({"quantize": "int8"}, program__options=LORA, program__data=data).convert
