"""The arithmetic of `benchmarks.proposers`, its functions' minima, and the recorded tables."""

import json
import random
from pathlib import Path

import pytest

from benchmarks.functions import FUNCTIONS
from benchmarks.lookup import NearestRows, deviations
from benchmarks.problems import TABLES, all_problems
from benchmarks.proposers_figures import (
    Cell,
    against_arms,
    mean_ranks,
    median_ratio,
    ranks,
    win_rate,
    wins,
)
from benchmarks.proposers_peers import LEARNED, MOST_CELLS, levels, only_active
from benchmarks.proposers_report import report
from benchmarks.proposers_runs import Method, Told, search
from benchmarks.table_spaces import SPACES, from_cube
from proposers.host import number_rng
from proposers.search_space import Categorical, Float, cardinality, faults, sample

SEARCHED = all_problems()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_its_minimum_where_it_is_said_to_be(name: str) -> None:
    known = FUNCTIONS[name]
    assert known.value(known.argmin) == pytest.approx(known.minimum, abs=1e-6)
    rng = random.Random(name)
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(300):
            moved = [v + rng.gauss(0.0, scale) for v in known.argmin]
            inside = [
                min(max(v, low), high) for v, (low, high) in zip(moved, known.box(), strict=True)
            ]
            assert known.value(inside) >= known.minimum - 1e-9


@pytest.mark.parametrize("name", SEARCHED)
def test_no_point_is_better_than_the_best_and_a_usual_one_has_regret_one(name: str) -> None:
    problem = SEARCHED[name]
    assert problem.regret(problem.best) == 0.0
    assert problem.regret(problem.usual()) == pytest.approx(1.0)
    sign = 1.0 if problem.best < problem.usual() else -1.0
    for seed in range(50):
        point = sample(problem.space, number_rng(seed, 7))
        assert sign * problem.surface(seed)(point) >= sign * problem.best - 1e-9


def test_a_shifted_minimum_stays_inside_of_the_box_and_leaves_its_middle() -> None:
    moved = []
    for seed in range(30):
        surface = SEARCHED["sphere"].surface(seed)
        for j in range(5):
            high, low = (
                surface({f"x{i}": value if i == j else 0.0 for i in range(5)})
                for value in (5.12, -5.12)
            )
            moved.append(abs(low - high) / (4 * 5.12))
    assert max(moved) < 5.12
    assert sorted(moved)[len(moved) // 2] > 1.0


@pytest.mark.parametrize("name", ["two_valleys", "hidden_valley", "wide_valley"])
def test_the_valley_is_lower_than_all_around_and_hard_to_meet(name: str) -> None:
    problem = SEARCHED[name]
    met = 0
    for seed in range(20):
        surface = problem.surface(seed)
        values = [surface(sample(problem.space, number_rng(seed, n))) for n in range(200)]
        met += sum(value < 0.54 for value in values)
    assert 40 <= met <= 200  # of 4,000


def test_ranks_share_the_places_of_equal_values() -> None:
    assert ranks([0.3, 0.1, 0.3, 0.9]) == [2.5, 1.0, 2.5, 4.0]
    found = mean_ranks({"a": [[0.1, 0.2]], "b": [[0.2, 0.1]], "c": [[0.3, 0.3]]})
    assert found == {"a": 1.5, "b": 1.5, "c": 3.0}


def test_regrets_below_the_floor_are_equal() -> None:
    assert mean_ranks({"a": [[1e-9]], "b": [[1e-5]]}) == {"a": 1.5, "b": 1.5}
    assert wins([1e-9, 0.1, 0.3], [1e-5, 0.2, 0.2]) == 1.5


def test_a_ratio_of_equal_searches_is_one_and_of_halves_a_half() -> None:
    theirs = [[0.2, 0.4, 0.6], [0.1, 0.3, 0.2]]
    assert median_ratio(theirs, theirs).value == 1.0
    halves = median_ratio([[v / 2 for v in row] for row in theirs], theirs)
    assert (halves.low, halves.value, halves.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_win_rate_has_wilsons_interval() -> None:
    half = win_rate(10, 20)
    assert (half.low, half.high) == pytest.approx((0.2993, 0.7007), abs=1e-4)
    assert win_rate(20, 20).low == pytest.approx(0.8389, abs=1e-4)


def test_a_hybrid_is_compared_with_the_better_of_its_arms() -> None:
    found = against_arms("p", [0.2, 0.2], {"slow": [0.5, 0.5], "fast": [0.1, 0.1]})
    assert (found.better, found.better_regret) == ("fast", 0.1)
    assert found.behind.value == pytest.approx(0.1)


def test_what_counts_is_the_true_value_of_what_looked_best() -> None:
    problem = SEARCHED["branin_noisy"]
    told = Told(problem, 0)
    values: list[tuple[float, float]] = []
    for number in range(40):
        params = sample(problem.space, number_rng(3, number))
        value, is_ahead = told.evaluate(params)
        assert is_ahead == all(value < other for other, _ in values)
        values.append((value, problem.surface(0)(params)))
        assert told.true_of_best[-1] == min(values)[1]


def test_a_point_of_a_row_has_its_value_and_a_point_between_two_lies_between() -> None:
    space = {"x": Float(0.0, 1.0)}
    rows = [
        {"point": 0, "params": {"x": 0.0}, "curve": [[1, 0.0], [2, 0.2]]},
        {"point": 0, "params": {"x": 0.0}, "curve": [[1, 0.0], [2, 0.4]]},
        {"point": 1, "params": {"x": 1.0}, "curve": [[2, 0.9]]},
    ]
    table = NearestRows(space, rows)
    assert table.value({"x": 0.0}) == pytest.approx(0.3)
    assert table.value({"x": 0.5}) == pytest.approx(0.6)
    assert table.best == 0.9
    assert table.noise_floor == pytest.approx(0.1 * 2**0.5)


def test_deviations_have_the_variance_of_one_run() -> None:
    rng = random.Random(1)
    runs = [[rng.gauss(5.0, 2.0), rng.gauss(5.0, 2.0)] for _ in range(4_000)]
    found = deviations(runs)
    assert sum(d * d for d in found) / len(found) == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("name", SPACES)
def test_a_point_of_the_cube_is_a_point_of_the_space(name: str) -> None:
    rng = random.Random(name)
    for _ in range(200):
        shares = [rng.random() for _ in SPACES[name]]
        params = from_cube(SPACES[name], shares)
        assert list(faults(SPACES[name], params)) == []


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.json")), ids=lambda path: path.stem)
def test_a_recorded_table_holds_runs_of_its_space(path: Path) -> None:
    assert path.stat().st_size < 300_000
    table = json.loads(path.read_text())
    name = path.stem.partition("_from_")[0]  # later points of the same space
    assert table["name"] == name
    assert table["versions"]["trl"]
    keys = [(row["point"], row["seed"]) for row in table["rows"]]
    assert len(set(keys)) == len(keys)
    for row in table["rows"]:
        assert list(faults(SPACES[name], row["params"])) == []
        assert [step for step, _ in row["curve"]] == [
            table["steps"] * place // table["checkpoints"]
            for place in range(1, table["checkpoints"] + 1)
        ]
        assert all(0.0 <= value <= 1.0 for _, value in row["curve"])


@pytest.mark.parametrize("name", SEARCHED)
def test_the_peers_grid_is_small_enough_and_inside_of_the_space(name: str) -> None:
    space = SEARCHED[name].space
    grid = levels(space)
    cells = cardinality({n: Categorical(tuple(v)) for n, v in grid.items()})
    assert cells is not None
    assert 0 < cells <= MOST_CELLS
    last = only_active(space, {n: values[-1] for n, values in grid.items()})
    assert list(faults(space, last)) == []


def test_both_sides_search_and_are_reported() -> None:
    problem = SEARCHED["conditional"]
    ours = search(Method(label="r", name="random"), problem, seed=1, trials=20, batch=4)
    same = search(Method(label="r", name="random"), problem, seed=1, trials=20, batch=1)
    assert ours.regrets == same.regrets
    assert len(ours.regrets) == 2
    assert ours.regrets[1] <= ours.regrets[0]
    assert "It was not run." in report([], took_s=0.0, jobs=1)


def test_a_run_of_the_peers_policy_alone_is_reported() -> None:
    alone = Cell(
        problem="sphere",
        kind="function",
        method=LEARNED,
        batch=1,
        marks=[10, 20],
        regrets=[[0.5, 0.25]],
        ms_per_proposal=0.0,
        arms={},
    )
    assert "| sphere | **0.2500** |" in report([alone], took_s=0.0, jobs=1)
