"""Statistics against scipy, against enumeration, and at their edges."""

import math
import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evaluator.statistics import (
    mean_interval,
    noise_floor,
    permutation_p,
    pooled_sd,
    student_t_ppf,
    student_t_sf,
    welch,
    wilson_interval,
)

values = st.floats(-1e3, 1e3).map(lambda v: round(v, 6))


def samples(low: int = 2, high: int = 12) -> st.SearchStrategy[list[float]]:
    return st.lists(values, min_size=low, max_size=high)


def test_student_t_tail_agrees_with_its_closed_forms_close_to_the_middle() -> None:
    """Where scipy itself is off by 3e-10."""
    for t in (1e-12, 1e-9, 1e-6, 1e-3, 0.5):
        assert student_t_sf(t, 1.0) == pytest.approx(0.5 - math.atan(t) / math.pi, abs=1e-14)
        closed = 0.5 - t / (2.0 * math.sqrt(2.0 + t * t))
        assert student_t_sf(t, 2.0) == pytest.approx(closed, abs=1e-14)


away_from_zero = st.floats(0.001, 60) | st.floats(-60, -0.001)


@given(t=away_from_zero, df=st.floats(0.3, 1e7))
@settings(max_examples=400)
def test_student_t_tail_agrees_with_scipy(t: float, df: float) -> None:
    assert student_t_sf(t, df) == pytest.approx(stats.t.sf(t, df), abs=1e-10)


def test_student_t_tail_agrees_with_scipy_where_the_beta_function_changes_formula() -> None:
    for df in (99.9, 100.0, 100.1, 2.0, 1.0):
        for t in (0.0, 0.7, 1.0, 1.5, 12.0):
            assert student_t_sf(t, df) == pytest.approx(stats.t.sf(t, df), abs=1e-12)


def test_student_t_tail_keeps_relative_precision_far_out() -> None:
    assert student_t_sf(40.0, 9.0) == pytest.approx(stats.t.sf(40.0, 9.0), rel=1e-9)


@given(q=st.floats(0.0005, 0.9995), df=st.floats(0.8, 500))
@settings(max_examples=150)
def test_student_t_quantile_agrees_with_scipy(q: float, df: float) -> None:
    expected = stats.t.ppf(q, df)
    assert student_t_ppf(q, df) == pytest.approx(expected, rel=1e-9, abs=1e-10)


def test_student_t_refuses_what_has_no_answer() -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        student_t_sf(1.0, 0.0)
    with pytest.raises(ValueError, match="probability"):
        student_t_ppf(1.0, 5.0)
    assert math.isnan(student_t_sf(math.nan, 5.0))
    assert student_t_sf(math.inf, 5.0) == 0.0
    assert student_t_sf(-math.inf, 5.0) == 1.0


@given(new=samples(), old=samples())
@settings(max_examples=200)
def test_welch_agrees_with_scipy(new: list[float], old: list[float]) -> None:
    if min(np.var(new), np.var(old)) < 1e-6:
        return  # scipy warns that it loses precision there
    theirs = stats.ttest_ind(new, old, equal_var=False, alternative="greater")
    ours = welch(new, old)
    assert ours.p_greater == pytest.approx(theirs.pvalue, abs=1e-9)
    both = stats.ttest_ind(new, old, equal_var=False).confidence_interval(0.95)
    interval = ours.interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((both.low, both.high), abs=1e-6)
    one_sided = theirs.confidence_interval(0.95)
    assert ours.lower_bound(0.95) == pytest.approx(one_sided.low, abs=1e-6)


def test_welch_without_variance_is_exact() -> None:
    assert welch([0.5, 0.5], [0.4, 0.4]).p_greater == 0.0
    assert welch([0.4, 0.4], [0.5, 0.5]).p_greater == 1.0
    interval = welch([0.5, 0.5], [0.4, 0.4]).interval()
    assert interval.low == interval.high == pytest.approx(0.1)


def test_rounding_is_neither_variance_nor_a_gain() -> None:
    tenths = [0.1 + 0.2, 0.3, 0.3]
    assert welch(tenths, [0.3, 0.3]).p_greater == 1.0
    assert pooled_sd([tenths]) == 0.0


@given(new=samples(1, 5), old=samples(1, 5))
@settings(max_examples=150)
def test_permutation_p_is_the_share_of_all_relabellings(
    new: list[float], old: list[float]
) -> None:
    pooled = [round(v * 10**6) for v in (*new, *old)]
    observed = sum(pooled[: len(new)])
    sums = [sum(c) for c in combinations(pooled, len(new))]
    assert permutation_p(new, old) == sum(s >= observed for s in sums) / len(sums)


def test_permutation_p_of_equal_values_is_one() -> None:
    assert permutation_p([0.1 + 0.2] * 3, [0.3] * 4) == 1.0


def test_permutation_p_counts_ties_that_only_rounding_breaks() -> None:
    # 0.1 + 0.2 sums above 0.3, yet swapping them must count as a tie.
    assert permutation_p([0.3, 0.0], [0.1, 0.2, 0.0]) == pytest.approx(
        permutation_p([3.0, 0.0], [1.0, 2.0, 0.0])
    )


def test_drawn_permutations_agree_with_all_of_them() -> None:
    rng = random.Random(4)
    new = [rng.gauss(0.6, 1) for _ in range(7)]
    old = [rng.gauss(0, 1) for _ in range(9)]
    exact = permutation_p(new, old)
    drawn = permutation_p(new, old, cap=10_000)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact / 10_000))
    assert drawn != exact
    assert permutation_p(new, old, cap=10_000) == drawn


def test_drawn_permutations_are_never_impossible() -> None:
    """The observed labelling counts, or a rare event would get p = 0."""
    assert permutation_p([9.0] * 12, [0.0] * 12, cap=100) == pytest.approx(1 / 101)


def test_noise_floor_needs_something_measured_twice() -> None:
    assert noise_floor([]) is None
    assert noise_floor([[0.1], [0.9]]) is None


def test_noise_floor_pools_within_candidates_not_between_them() -> None:
    groups = [[1.0, 3.0], [101.0, 103.0], [7.0]]
    assert noise_floor(groups) == pytest.approx(math.sqrt(2.0))


def test_noise_floor_is_never_below_the_resolution() -> None:
    assert noise_floor([[0.5, 0.5]], resolution=0.01) == 0.01


@given(count=st.integers(1, 500), share=st.floats(0, 1))
def test_wilson_interval_agrees_with_scipy(count: int, share: float) -> None:
    successes = round(count * share)
    theirs = stats.binomtest(successes, count).proportion_ci(0.95, method="wilson")
    ours = wilson_interval(successes, count)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_wilson_interval_refuses_what_is_no_proportion() -> None:
    with pytest.raises(ValueError, match="not a proportion"):
        wilson_interval(3, 2)


def test_mean_interval_agrees_with_scipy() -> None:
    sample = [0.3, 0.5, 0.4, 0.7]
    theirs = stats.ttest_1samp(sample, 0).confidence_interval(0.9)
    ours = mean_interval(sample, 0.9)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
