"""What a curve may come to, learned from complete ones, and when nothing is learned."""

import math
import random

import pytest

from evaluator.pruning_regression import FEWEST_CURVES, Figures, Known, figures_of, upper_bound


def figures(recent: float, rough: float = 0.1, forecast: float | None = None) -> Figures:
    return Figures(recent, recent, recent, rough, forecast)


def known(count: int, noise: float = 0.0, seed: int = 0) -> list[Known]:
    """Final value: 1 + 2 * recent level, and noise."""
    rng = random.Random(seed)
    levels = [place / count for place in range(count)]
    return [(figures(level), 1.0 + 2.0 * level + rng.gauss(0.0, noise)) for level in levels]


def test_nothing_is_learned_from_too_few_curves() -> None:
    assert upper_bound(figures(0.5), known(FEWEST_CURVES - 1)) is None
    assert upper_bound(figures(0.5), known(FEWEST_CURVES)) is not None


def test_a_relation_without_noise_is_found() -> None:
    found = upper_bound(figures(0.5), known(20))
    assert found == pytest.approx(2.0, abs=0.02)


def test_the_bound_holds_for_nearly_all_new_curves() -> None:
    held = 0
    for seed in range(200):
        rng = random.Random(f"new/{seed}")
        level = rng.random()
        bound = upper_bound(figures(level), known(20, noise=0.2, seed=seed))
        held += bound is not None and 1.0 + 2.0 * level + rng.gauss(0.0, 0.2) <= bound
    assert held >= 185


def test_a_stranger_to_all_known_curves_may_come_to_more() -> None:
    found = known(20, noise=0.2)
    middle, far = (upper_bound(figures(level), found) for level in (0.5, 5.0))
    assert middle is not None
    assert far is not None
    assert far - 11.0 > middle - 2.0


def test_rough_curves_may_come_to_more_where_rough_ones_did() -> None:
    rng = random.Random(4)
    found = [(figures(rng.random(), rough), rng.gauss(0.0, rough)) for rough in (0.01, 0.2) * 12]
    smooth, rough = (upper_bound(figures(0.5, size), found) for size in (0.01, 0.2))
    assert smooth is not None
    assert rough is not None
    assert rough > smooth + 0.1


@pytest.mark.parametrize("scale", [1e-60, 1e-9, 1e9, 1e60])
def test_the_unit_of_the_metric_changes_nothing(scale: float) -> None:
    found = known(12, noise=0.2)
    scaled = [
        (
            Figures(f.recent * scale, f.best * scale, f.before * scale, f.rough * scale, None),
            y * scale,
        )
        for f, y in found
    ]
    one = upper_bound(figures(0.3), found)
    other = upper_bound(Figures(*(v * scale for v in (0.3, 0.3, 0.3, 0.1)), None), scaled)
    assert one is not None
    assert other == pytest.approx(one * scale, rel=1e-6)


def test_equal_curves_come_to_what_they_came_to() -> None:
    found = upper_bound(figures(0.5, 0.0), [(figures(0.5, 0.0), 0.7)] * 9)
    assert found == pytest.approx(0.7)


def test_one_report_has_figures() -> None:
    assert figures_of([0.3], None) == Figures(0.3, 0.3, 0.3, 0.0, None)
    found = figures_of([float(value) for value in range(8)], 9.0)
    assert (found.recent, found.best, found.before, found.forecast) == (6.5, 7.0, 2.5, 9.0)
    assert math.isclose(found.rough, 1.0)
