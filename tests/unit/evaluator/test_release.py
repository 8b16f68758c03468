"""How little of a score is told."""

import math
import random

import pytest

from evaluator.comparability import comparison_digest
from evaluator.release import next_best, rounded
from ledger.records import Direction, Objective

UP, DOWN = Direction.MAXIMIZE, Direction.MINIMIZE


def test_a_released_score_is_a_multiple_of_the_noise_floor() -> None:
    assert rounded(0.537, 0.02) == pytest.approx(0.54)
    assert rounded(-0.537, 0.02) == pytest.approx(-0.54)


@pytest.mark.parametrize("step", [0.0, math.nan, math.inf, 5e-324])
def test_without_a_usable_step_the_score_is_told_as_it_is(step: float) -> None:
    assert rounded(0.537, step) == 0.537


def test_the_best_so_far_moves_only_by_a_real_step() -> None:
    best = next_best(None, 0.50, step=0.02, direction=UP)
    assert next_best(best, 0.515, step=0.02, direction=UP) == best
    assert next_best(best, 0.541, step=0.02, direction=UP) == pytest.approx(0.54)
    down = next_best(None, 0.50, step=0.02, direction=DOWN)
    assert next_best(down, 0.53, step=0.02, direction=DOWN) == down
    assert next_best(down, 0.46, step=0.02, direction=DOWN) == pytest.approx(0.46)


def test_a_non_finite_score_moves_nothing() -> None:
    assert next_best(0.5, math.nan, step=0.02, direction=UP) == 0.5
    with pytest.raises(ValueError, match="first released"):
        next_best(None, math.nan, step=0.02, direction=UP)


def test_asking_a_thousand_times_teaches_little() -> None:
    """The Ladder's point: pure noise climbs a plain maximum, but hardly the released one."""
    rng = random.Random(0)
    best: float | None = None
    plain = -math.inf
    for _ in range(1000):
        score = rng.gauss(0.5, 0.01)
        plain = max(plain, score)
        best = next_best(best, score, step=0.03, direction=UP)
    assert plain > 0.53
    assert best is not None
    assert best <= 0.54


def comparison(**changes: object) -> str:
    settings: dict[str, object] = {
        "bundle": "b" * 64,
        "code": "c" * 64,
        "environment": "python 3.11",
        "inputs": {"base": "d" * 64, "data": "e" * 64},
        "objective": Objective(metric="exact_match", direction=UP),
    }
    return comparison_digest(**(settings | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"bundle": "x"},
        {"code": "x"},
        {"environment": "python 3.12"},
        {"inputs": {"base": "d" * 64}},
        {"objective": Objective(metric="exact_match", direction=DOWN)},
        {"objective": Objective(metric="loss", direction=UP)},
    ],
)
def test_scores_are_compared_only_where_nothing_that_shapes_them_differs(
    change: dict[str, object],
) -> None:
    assert comparison(**change) != comparison()


def test_the_order_of_inputs_makes_no_comparison_family() -> None:
    assert comparison(inputs={"data": "e" * 64, "base": "d" * 64}) == comparison()
