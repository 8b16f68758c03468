"""Non-inferiority of paired items: the closed form, its size, awkward samples."""

import math
import random
from statistics import NormalDist

import pytest

from evaluator.paired import items_needed, non_inferiority


def binary(gained: int, lost: int, same: int) -> tuple[list[float], list[float]]:
    new = [1.0] * gained + [0.0] * lost + [1.0] * same
    old = [0.0] * gained + [1.0] * lost + [1.0] * same
    return new, old


def likelihood(q: float, gained: int, lost: int, count: int, delta: float) -> float:
    """Of a loss with probability q when a gain has q + delta; log, up to a constant."""
    parts = [(gained, q + delta), (lost, q), (count - gained - lost, 1 - 2 * q - delta)]
    return sum(n * math.log(p) if p > 0 else -math.inf for n, p in parts if n)


@pytest.mark.parametrize(
    ("gained", "lost", "count"), [(3, 1, 44), (0, 4, 100), (5, 5, 60), (0, 0, 80), (12, 0, 90)]
)
@pytest.mark.parametrize("margin", [0.02, 0.1, 0.3])
def test_the_closed_form_is_the_score_test_at_the_largest_likelihood(
    gained: int, lost: int, count: int, margin: float
) -> None:
    """Tango's q solves a quadratic equation; here it is looked for by trying."""
    low, high = margin, (1 + margin) / 2
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if likelihood(a, gained, lost, count, -margin) < likelihood(
            b, gained, lost, count, -margin
        ):
            low = a
        else:
            high = b
    q = (low + high) / 2
    z = (gained - lost + count * margin) / math.sqrt(count * (2 * q - margin * (1 + margin)))
    new, old = binary(gained, lost, count - gained - lost)
    found = non_inferiority([new], [old], margin=margin, alpha=0.05)
    assert (found.test, found.gained, found.lost, found.items) == ("tango", gained, lost, count)
    assert found.p == pytest.approx(1 - NormalDist().cdf(z), abs=1e-6)


def test_the_bound_and_the_test_agree() -> None:
    new, old = binary(2, 6, 200)
    found = non_inferiority([new], [old], margin=0.05, alpha=0.05)
    again = non_inferiority([new], [old], margin=-found.lower, alpha=0.05)
    assert again.p == pytest.approx(0.05, abs=1e-6)
    assert (found.p <= 0.05) == (found.lower > -0.05)


@pytest.mark.parametrize(("margin", "needed"), [(0.02, 133), (0.05, 52), (0.01, 268)])
def test_too_few_items_can_never_pass_and_enough_of_them_can(margin: float, needed: int) -> None:
    assert items_needed(margin, 0.05) == needed
    same = [1.0, 0.0] * needed
    short, enough = same[: needed - 1], same[:needed]
    assert non_inferiority([short], [short], margin=margin, alpha=0.05).p > 0.05
    assert non_inferiority([enough], [enough], margin=margin, alpha=0.05).p <= 0.05


def test_a_model_that_is_worse_by_the_margin_passes_about_as_often_as_alpha_says() -> None:
    chance = random.Random(5)
    passed = 0
    for _ in range(400):
        old = [float(chance.random() < 0.6) for _ in range(300)]
        new = [0.0 if o and chance.random() < 0.05 / 0.6 else o for o in old]
        passed += non_inferiority([new], [old], margin=0.05, alpha=0.05).p <= 0.05
    assert passed / 400 < 0.09


def test_other_items_are_compared_by_their_mean_difference() -> None:
    chance = random.Random(1)
    old = [chance.gauss(0.0, 1.0) for _ in range(300)]
    slightly = [value - 0.01 + chance.gauss(0.0, 0.02) for value in old]
    found = non_inferiority([slightly], [old], margin=0.05, alpha=0.05)
    assert found.test == "paired"
    assert found.p < 0.001
    assert -0.05 < found.lower < found.difference < 0.0
    much = [value - 0.2 for value in old]
    assert non_inferiority([much], [old], margin=0.05, alpha=0.05).p == 1.0


def test_identical_answers_are_no_difference_however_large_the_numbers() -> None:
    items = [1e9 + i / 3 for i in range(20)]
    found = non_inferiority([items], [items], margin=0.01, alpha=0.05)
    assert (found.difference, found.lower, found.gained, found.lost) == (0.0, 0.0, 0, 0)
    assert found.p <= 0.05


def test_a_handful_of_items_proves_nothing() -> None:
    assert non_inferiority([[0.5] * 4], [[0.5] * 4], margin=0.1, alpha=0.05).p == 1 / 16


def test_an_item_counts_once_however_many_seeds_there_are() -> None:
    old, new = [0.0, 1.0] * 100, [1.0, 0.0] * 100
    one = non_inferiority([new], [old], margin=0.2, alpha=0.05)
    many = non_inferiority([new] * 5, [old] * 5, margin=0.2, alpha=0.05)
    assert (one.items, many.items) == (200, 200)
    assert (one.test, many.test) == ("tango", "paired")
    assert many.lower == pytest.approx(one.lower, abs=0.01)


@pytest.mark.parametrize(
    ("new", "old", "margin"),
    [
        ([[1.0]], [[1.0]], 0.1),
        ([[1.0, 0.0]], [[1.0]], 0.1),
        ([[1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]], 0.1),
        ([[1.0, 0.0]], [[1.0, 0.0]], 0.0),
        ([[1.0, 0.0]], [[1.0, 0.0]], -0.1),
    ],
)
def test_what_does_not_pair_is_refused(
    new: list[list[float]], old: list[list[float]], margin: float
) -> None:
    with pytest.raises(ValueError, match=r"margin|every seed"):
        non_inferiority(new, old, margin=margin, alpha=0.05)
