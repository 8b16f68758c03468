"""Reading a program's settings from the params document."""

import re
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from inner_trials.adapters import AdapterSettings
from inner_trials.sampling import SamplingSettings
from inner_trials.settings import SettingsError, above, at_least, read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    rate: float = above(0.0, default=0.1)
    steps: int = at_least(1, default=10)
    packing: bool = False
    schedule: Literal["constant", "cosine"] = "constant"
    cap: int | None = None


def test_parameters_override_options_which_override_defaults() -> None:
    document = {"options": {"rate": 0.2, "steps": 5}, "parameters": {"rate": 0.3}}
    assert read_settings(Example, document) == Example(rate=0.3, steps=5)


def test_an_unknown_option_is_named_with_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(SettingsError) as error:
        read_settings(Example, {"parameters": {"stepz": 3}})
    assert str(error.value) == (
        "parameters.stepz: unknown option (did you mean steps?);"
        " known options: cap, packing, rate, schedule, steps"
    )


def test_whole_numbers_and_floats_stand_for_each_other_where_nothing_is_lost() -> None:
    read = read_settings(Example, {"options": {"rate": 1, "steps": 3.0}})
    assert isinstance(read.rate, float)
    assert isinstance(read.steps, int)
    with pytest.raises(SettingsError, match=r"options.steps: 3.5 is not a whole number"):
        read_settings(Example, {"options": {"steps": 3.5}})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rate", "0.1", "'0.1' is not a number"),
        ("rate", True, "True is not a number"),
        ("rate", 0.0, "0.0 must be more than 0.0"),
        ("rate", float("nan"), "nan must be more than 0.0"),
        ("rate", float("inf"), "inf must be more than 0.0"),
        ("rate", 10**400, f"{10**400} is not a number"),
        ("steps", 0, "0 must be 1 or more"),
        ("steps", 10**400, f"{10**400} must be {2**53} or less"),
        ("packing", 1, "1 is not true or false"),
        ("schedule", "linear", "'linear' is not one of constant, cosine"),
        ("cap", "x", "'x' is not a whole number or null"),
    ],
)
def test_a_wrong_value_is_refused_with_the_rule(name: str, value: object, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_settings(Example, {"options": {name: value}})
    assert str(error.value) == f"options.{name}: {message}"


def test_null_is_taken_where_it_is_allowed() -> None:
    assert read_settings(Example, {"options": {"cap": None}}).cap is None


@pytest.mark.parametrize(
    ("kind", "name", "value", "rule"),
    [
        (SamplingSettings, "top_p", 1.5, "1.5 must be 1.0 or less"),
        (SamplingSettings, "min_p", 2.0, "2.0 must be 1.0 or less"),
        (AdapterSettings, "lora_dropout", 1.0, "1.0 must be less than 1.0"),
    ],
)
def test_a_share_that_no_library_takes_or_that_leaves_nothing_is_refused(
    kind: Any, name: str, value: float, rule: str
) -> None:
    with pytest.raises(SettingsError, match=rf"options.{name}: {re.escape(rule)}"):
        read_settings(kind, {"options": {name: value}})
