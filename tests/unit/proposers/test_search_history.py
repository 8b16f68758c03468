"""What a history says of its baseline, however large its values are."""

import math

import pytest

from ledger.records import Direction, Objective
from ledger.search import History
from proposers.host import ask
from proposers.registry import Setup, build_here, read_options
from proposers.search_space import Float, SearchSpace

SPACE: SearchSpace = {"x": Float(low=0.0, high=1.0)}
HUGE = 1.7e308


def history_of(*baseline: float) -> History:
    return History(
        objective=Objective(metric="loss", direction=Direction.MINIMIZE),
        next_number=0,
        baseline=baseline,
        baseline_params={"x": 0.5},
    )


@pytest.mark.parametrize(
    ("baseline", "value"),
    [((), None), ((1.0, 2.0), 1.5), ((HUGE,) * 4, HUGE), ((1.0, math.nan), None)],
)
def test_a_baseline_has_the_mean_of_its_values(
    baseline: tuple[float, ...], value: float | None
) -> None:
    assert history_of(*baseline).baseline_value == value


@pytest.mark.parametrize("name", ["random", "tpe", "cmaes", "sobol", "nsga2"])
def test_values_near_the_largest_there_are_stop_no_proposer(name: str) -> None:
    proposer = build_here(name, Setup(space=SPACE, options=read_options(name, {})))
    given = ask(proposer, history_of(HUGE, HUGE, HUGE), space=SPACE, count=2, seed=0, state=None)
    assert len(given.items) == 2
