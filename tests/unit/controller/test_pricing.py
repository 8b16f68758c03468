"""What a study will cost, before it starts."""

import pytest

from controller.decisions.pricing import Range, check_price, price_study
from controller.decisions.profiles import PROFILES, gate_runs_bounds
from ledger.errors import InvalidInput
from ledger.states import Reason
from tests.unit.controller.study_documents import SFT, study

FINITE = {"type": "int", "low": 0, "high": 9}


def test_a_study_without_promotion_is_its_baselines_and_its_search() -> None:
    price = price_study(study(), trial_wall_s=36.0)
    (only,) = price.profiles
    assert (price.search_trials, price.limited_by) == (10, Reason.BUDGET_TRIALS)
    assert (only.profile, only.baseline_trials) == (None, 3)
    assert only.gate_runs == Range(0, 0, 0)
    assert only.trials == Range(13, 13, 13)
    assert only.hours == Range(0.13, 0.13, 0.13)


def test_both_profiles_are_priced_the_studys_own_first() -> None:
    for own, other in (("thorough", "quick"), ("quick", "thorough")):
        price = price_study(study(SFT, promotion__profile=own), trial_wall_s=1.0)
        assert [p.profile for p in price.profiles] == [own, other]


def test_the_gate_is_priced_at_its_own_bounds() -> None:
    price = price_study(study(SFT))
    for priced in price.profiles:
        profile = PROFILES[str(priced.profile)]
        assert (priced.gate_runs.least, priced.gate_runs.most) == gate_runs_bounds(profile)
        assert priced.gate_runs.typical == profile.m * profile.k1 + profile.k2
        assert priced.baseline_trials == profile.n0


def test_thorough_runs_are_counted_by_hand() -> None:
    thorough = price_study(study(SFT)).profiles[0]
    assert thorough.trials == Range(10 + 40 + 6, 10 + 40 + 12, 10 + 40 + 27)
    # 30 min training, 30 min an evaluation: baselines have three, confirmations two.
    assert thorough.worst_hours == 10 * 2 + 40 * 1 + 12 * 1 + 15 * 1.5
    assert thorough.hours is None


def test_trials_side_by_side_take_turns() -> None:
    price = price_study(study(SFT, parallel=4, budget={"trials": 40}), trial_wall_s=3600.0)
    hours = price.profiles[0].hours
    assert hours is not None
    assert hours.least == 3 + 10 + 2
    assert hours.typical == 3 + 10 + 2 + 1 + 1
    assert hours.most == 3 + 10 + 2 + 1 + 1 + 4


def test_gpu_hours_count_every_gpu_and_do_not_shrink_by_parallel() -> None:
    for parallel in (1, 5):
        spec = study(resources={"gpus": 2}, parallel=parallel)
        priced = price_study(spec, trial_wall_s=1800.0).profiles[0]
        assert priced.gpu_hours == Range(13, 13, 13)
        assert priced.worst_gpu_hours == 13 * 2 * 0.5


def test_the_tightest_limit_ends_the_search() -> None:
    finite = study(space__x=FINITE, budget={"trials": 40})
    assert price_study(finite).limited_by is Reason.SPACE_EXHAUSTED
    assert price_study(finite).search_trials == 10
    timed = study(budget={"trials": 400, "wall_time": "1h"}, parallel=2)
    price = price_study(timed, trial_wall_s=60.0)
    assert (price.search_trials, price.limited_by) == ((60 - 2) * 2, Reason.BUDGET_WALL_TIME)
    gpus = study(budget={"trials": 400, "gpu_hours": 2}, resources={"gpus": 1})
    price = price_study(gpus, trial_wall_s=360.0)
    assert (price.search_trials, price.limited_by) == (17, Reason.BUDGET_GPU_HOURS)


def test_time_for_the_whole_gate_is_set_aside() -> None:
    spec = study(SFT, budget={"wall_time": "100m"}, parallel=2)
    price = price_study(spec, trial_wall_s=60.0)
    assert (price.search_trials, price.limited_by) == ((100 - 5 - 14) * 2, Reason.BUDGET_WALL_TIME)
    spec = study(
        SFT,
        budget={"gpu_hours": 100 / 60},
        resources={"gpus": 1, "wall_time": "1m"},
        evaluator__wall_time="1m",
    )
    price = price_study(spec, trial_wall_s=60.0)
    assert (price.search_trials, price.limited_by) == (100 - 10 - 27, Reason.BUDGET_GPU_HOURS)


def test_a_search_that_only_a_plateau_ends_has_no_price() -> None:
    price = price_study(study(budget={}, stop__no_improvement=5), trial_wall_s=1.0)
    assert price.search_trials is None
    only = price.profiles[0]
    assert (only.trials, only.hours, only.worst_hours) == (None, None, None)
    assert only.baseline_trials == 3


def test_a_budget_that_the_baselines_use_up_is_refused() -> None:
    spec = study(budget={"wall_time": "2m"})
    with pytest.raises(InvalidInput, match="before the first search trial"):
        check_price(spec, trial_wall_s=60.0)
    check_price(spec, trial_wall_s=20.0)
    check_price(spec)
