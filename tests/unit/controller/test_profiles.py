"""The gate's parameter sets."""

import json
from dataclasses import replace

import pytest

from benchmarks.gate_simulation import FAMILIES, simulate
from controller.decisions.profiles import (
    ERROR_RATES,
    PROFILES,
    QUICK,
    THOROUGH,
    gate_runs_bounds,
    profile_document,
    profile_for,
    read_profile,
)
from evaluator.statistics import wilson_interval
from ledger.digests import canonical_json
from ledger.errors import Conflict, InvalidInput


def test_the_demo_profile_with_its_baselines_fits_into_eighteen_runs() -> None:
    assert QUICK.n0 + gate_runs_bounds(QUICK)[1] == 18


def test_both_tries_of_a_study_share_one_error_budget() -> None:
    first = profile_for("thorough", families_before=0)
    second = profile_for("thorough", families_before=1)
    assert (first.alpha, second.alpha) == (0.04, 0.01)
    with pytest.raises(Conflict, match="error budget"):
        profile_for("thorough", families_before=2)
    assert profile_for("quick", tries=1, min_effect=0.1) == replace(QUICK, min_effect=0.1)


def test_a_profile_survives_the_ledger() -> None:
    profile = profile_for("quick", alpha=0.1, min_effect=0.02)
    assert read_profile(json.loads(canonical_json(profile_document(profile)))) == profile


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("k2", 3),
        ("k2", 0),
        ("n0", 1),
        ("n_old", 1),
        ("m", 0),
        ("alpha", 0.0),
        ("min_effect", -1.0),
    ],
)
def test_a_profile_that_cannot_decide_is_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidInput):
        replace(THOROUGH, **{field: value})


def test_every_profile_publishes_its_error_rates() -> None:
    assert set(ERROR_RATES) == set(PROFILES)


@pytest.mark.parametrize("name", ["quick", "thorough"])
def test_the_published_rates_are_those_the_simulation_gives(name: str) -> None:
    """A few hundred studies, so a change of the rule shows; the benchmark runs thousands."""
    profile, rates = PROFILES[name], ERROR_RATES[name]
    normal = FAMILIES[0]
    count = 400
    null = [simulate(profile, normal, 0.0, f"null/{i}") for i in range(count)]
    two = [simulate(profile, normal, 2.0, f"two/{i}") for i in range(count)]
    false = wilson_interval(sum(o.promoted for o in null), count, z=3.3)
    power = wilson_interval(sum(o.promoted and o.better for o in two), count, z=3.3)
    assert false.low <= rates.false_promotion <= false.high
    assert power.low <= rates.power_2_sd <= power.high
