"""Distributions and the spaces made of them."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.records import ParamValue
from proposers.search_space import (
    Categorical,
    Distribution,
    Float,
    Int,
    SearchSpace,
    cardinality,
    faults,
    point,
    sample,
)

STEPS = st.sampled_from([0.1, 0.25, 0.3, 1e-3, 7.0])
BOUNDS = st.decimals(-1000, 1000, places=3).map(float)


@st.composite
def floats(draw: st.DrawFn) -> Float:
    low, high = sorted(draw(st.lists(BOUNDS, min_size=2, max_size=2, unique=True)))
    step = draw(st.none() | STEPS)
    log = low > 0 and draw(st.booleans())
    return Float(low, high, log=log, step=step)


@st.composite
def ints(draw: st.DrawFn) -> Int:
    low = draw(st.integers(-(2**40), 2**40))
    high = low + draw(st.integers(1, 2**40))
    return Int(low, high, log=low > 0 and draw(st.booleans()), step=draw(st.integers(1, 9)))


VALUES = st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
CATEGORICALS = st.lists(VALUES, min_size=1, max_size=5).map(lambda v: Categorical(tuple(v)))
DISTRIBUTIONS: st.SearchStrategy[Distribution] = floats() | ints() | CATEGORICALS


@given(DISTRIBUTIONS, st.integers(0, 2**32))
def test_every_draw_is_inside_and_of_its_exact_type(drawn: Distribution, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        value = drawn.sample(rng)
        assert drawn.contains(value)
        if not isinstance(drawn, Categorical):
            assert type(value) is (float if isinstance(drawn, Float) else int)


@given(DISTRIBUTIONS)
def test_the_middle_and_both_ends_of_a_stepped_range_are_inside(drawn: Distribution) -> None:
    assert drawn.contains(drawn.middle())
    if drawn.size is not None:
        assert drawn.contains(drawn.at(0))
        assert drawn.contains(drawn.at(drawn.size - 1))


@given(floats(), st.integers(0, 2**32))
def test_steps_do_not_drift_from_the_decimals_that_were_typed(drawn: Float, seed: int) -> None:
    if drawn.step is None:
        return
    value = drawn.sample(random.Random(seed))
    assert len(repr(value)) <= len("-1000.001") + 3


def test_three_steps_of_a_tenth_are_exactly_three_tenths() -> None:
    tenths = Float(0.0, 1.0, step=0.1)
    assert [tenths.at(i) for i in range(11)] == [
        0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    ]  # fmt: skip
    assert not tenths.contains(0.1 + 0.2)


def test_high_is_left_out_when_no_step_reaches_it() -> None:
    assert Float(0.0, 1.0, step=0.3).size == 4
    assert Float(0.0, 1.0, step=0.3).at(3) == 0.9
    assert Int(4, 15, step=4).size == 3
    assert not Int(4, 15, step=4).contains(15)


def test_the_widest_possible_range_does_not_overflow() -> None:
    widest = Float(-1.7e308, 1.7e308)
    rng = random.Random(0)
    assert all(math.isfinite(widest.sample(rng)) for _ in range(100))
    assert math.isfinite(widest.middle())


def test_a_log_range_gives_each_factor_of_ten_its_share() -> None:
    drawn = Float(1e-6, 1e-2, log=True)
    rng = random.Random(1)
    below = sum(drawn.sample(rng) < 1e-4 for _ in range(4000))
    assert 1850 < below < 2150


def test_the_ends_of_a_log_integer_range_are_drawn_too() -> None:
    rng = random.Random(2)
    drawn = {Int(1, 4, log=True).sample(rng) for _ in range(400)}
    assert drawn == {1, 2, 3, 4}


def test_the_middle_of_a_log_range_is_its_geometric_mean() -> None:
    assert Float(1e-6, 1e-2, log=True).middle() == 1e-4
    assert Int(1, 10_000, log=True).middle() == 100
    assert Int(4, 16, step=4).middle() == 8


@pytest.mark.parametrize(
    ("distribution", "value"),
    [
        (Int(0, 5), 1.0),
        (Int(0, 5), True),
        (Float(0.0, 5.0), 1),
        (Float(0.0, 5.0), math.nan),
        (Float(0.0, 5.0), "1.0"),
        (Categorical((1, "a")), 1.0),
        (Categorical((1, "a")), True),
    ],
)
def test_a_value_of_another_type_is_outside(distribution: Distribution, value: ParamValue) -> None:
    assert not distribution.contains(value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Float(1.0, 1.0),
        lambda: Float(0.0, math.inf),
        lambda: Float(math.nan, 1.0),
        lambda: Float(0.0, 1.0, log=True),
        lambda: Float(0.0, 1.0, step=0.0),
        lambda: Int(3, 2),
        lambda: Int(0, 2, log=True),
        lambda: Int(0, 2, step=0),
        lambda: Categorical(()),
    ],
)
def test_an_impossible_distribution_is_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=r"low|log|step|choice"):
        wrong()


SPACE: SearchSpace = {
    "b": Int(0, 2),
    "a": Categorical(("x", "y")),
    "c": Float(0.0, 0.2, step=0.1),
}


def test_points_count_like_an_odometer_by_name_the_last_fastest() -> None:
    size = cardinality(SPACE)
    assert size == 18
    points = [point(SPACE, i) for i in range(size)]
    assert points[:4] == [
        {"a": "x", "b": 0, "c": 0.0},
        {"a": "x", "b": 0, "c": 0.1},
        {"a": "x", "b": 0, "c": 0.2},
        {"a": "x", "b": 1, "c": 0.0},
    ]
    assert len({str(p) for p in points}) == size
    with pytest.raises(IndexError):
        point(SPACE, size)


def test_the_order_of_the_mapping_changes_nothing() -> None:
    turned = dict(reversed(SPACE.items()))
    assert [point(turned, i) for i in range(18)] == [point(SPACE, i) for i in range(18)]
    assert sample(turned, random.Random(4)) == sample(SPACE, random.Random(4))


def test_a_continuous_space_has_no_size_and_an_empty_one_no_points() -> None:
    assert cardinality({**SPACE, "d": Float(0.0, 1.0)}) is None
    assert cardinality({}) == 0
    with pytest.raises(ValueError, match="d is continuous"):
        point({"d": Float(0.0, 1.0)}, 0)


def test_faults_name_each_parameter_that_is_off() -> None:
    assert list(faults(SPACE, {"a": "x", "b": 0, "c": 0.1})) == []
    assert list(faults(SPACE, {"a": "z", "b": 0, "d": 1})) == [
        "c is missing",
        "d is not a parameter of the space",
        "a: 'z' is outside the choices 'x', 'y'",
    ]
