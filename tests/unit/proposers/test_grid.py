"""Grid: every point once, in order."""

import pytest

from ledger.digests import params_digest
from ledger.errors import InvalidInput
from ledger.records import Direction, Objective, ParamValue
from ledger.search import History
from proposers.grid import Grid
from proposers.search_space import Categorical, Float, Int, SearchSpace, point

SPACE: SearchSpace = {"a": Int(0, 3), "b": Categorical(("x", "y", "z"))}
OBJECTIVE = Objective(metric="score", direction=Direction.MAXIMIZE)


def history(number: int, *proposed: dict[str, ParamValue]) -> History:
    digests = frozenset(params_digest(params) for params in proposed)
    return History(objective=OBJECTIVE, next_number=number, proposed=digests)


def walk(start: int, count: int) -> list[dict[str, ParamValue]]:
    return [point(SPACE, i) for i in range(start, start + count)]


def test_points_come_in_order_and_then_no_more() -> None:
    first = Grid(SPACE).propose(history(0), count=10, seed=0, state=None)
    assert [p.params for p in first.items] == walk(0, 10)
    last = Grid(SPACE).propose(history(10, *walk(0, 10)), count=10, seed=0, state=first.state)
    assert [p.params for p in last.items] == walk(10, 2)
    done = Grid(SPACE).propose(history(12, *walk(0, 12)), count=1, seed=0, state=last.state)
    assert done.items == []


def test_a_lost_state_is_made_up_for_by_what_was_proposed() -> None:
    again = Grid(SPACE).propose(history(5, *walk(0, 5)), count=3, seed=0, state=None)
    assert [p.params for p in again.items] == walk(5, 3)


def test_a_trial_enqueued_by_hand_costs_no_point_and_is_not_repeated() -> None:
    first = Grid(SPACE).propose(history(0), count=2, seed=0, state=None)
    by_hand = point(SPACE, 7)
    seen = [*walk(0, 2), by_hand]
    rest = Grid(SPACE).propose(history(3, *seen), count=20, seed=0, state=first.state)
    assert [p.params for p in rest.items] == [*walk(2, 5), *walk(8, 4)]


def test_a_changed_space_is_walked_from_its_start_without_repeats() -> None:
    first = Grid(SPACE).propose(history(0), count=12, seed=0, state=None)
    wider: SearchSpace = {**SPACE, "b": Categorical(("x", "y", "z", "new"))}
    more = Grid(wider).propose(history(12, *walk(0, 12)), count=20, seed=0, state=first.state)
    assert [p.params["b"] for p in more.items] == ["new"] * 4


def test_a_continuous_range_is_refused_by_name_with_both_remedies() -> None:
    with pytest.raises(InvalidInput, match=r"space\.lr.*step, or choices"):
        Grid({**SPACE, "lr": Float(0.0, 1.0)})


def test_the_last_points_of_a_huge_grid_cost_no_walk_to_get_there() -> None:
    huge: SearchSpace = {f"p{i:02}": Int(0, 9) for i in range(30)}
    grid = Grid(huge)
    state = grid.propose(history(0), count=1, seed=0, state=None).state
    assert state is not None
    far = state.replace(b'"next": 1,', b'"next": %d,' % (10**30 - 1))
    assert far != state
    last = grid.propose(history(0), count=5, seed=0, state=far)
    assert [set(p.params.values()) for p in last.items] == [{9}]
