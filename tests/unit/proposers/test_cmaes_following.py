"""CMA-ES as one of several: it goes where another proposer found something better."""

from collections.abc import Sequence

import pytest

from ledger.digests import params_digest
from ledger.records import Direction, Objective, Params
from ledger.search import FinishedTrial, History, Proposals
from ledger.states import Reason, TrialState
from proposers.registry import Setup, build_proposer, parts, read_options
from proposers.search_space import Float, SearchSpace

pytest.importorskip("cmaes")

SPACE: SearchSpace = {"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}
OBJECTIVE = Objective(metric="loss", direction=Direction.MINIMIZE)
FOUND = {"x": 0.95, "y": 0.05}


def ask(points: Sequence[Params], state: bytes | None, *, follows: bool) -> Proposals:
    """Its next point, when those were tried; the loss is the distance from FOUND."""
    finished = [
        FinishedTrial(
            number=number,
            params=params,
            state=TrialState.COMPLETE,
            value=abs(float(params["x"]) - 0.95) + abs(float(params["y"]) - 0.05),
            reason=Reason.WORSE,
            candidate_id=str(number),
            kept=False,
        )
        for number, params in enumerate(points)
    ]
    options = read_options("cmaes", {"follows": follows})
    return build_proposer("cmaes", Setup(space=SPACE, options=options)).propose(
        History(
            objective=OBJECTIVE,
            next_number=len(points),
            finished=finished,
            proposed=frozenset(params_digest(params) for params in points),
        ),
        count=1,
        seed=3,
        state=state,
    )


def mean_distance(*, follows: bool, found_after: int) -> float:
    """Of ten points that are proposed after somebody else found FOUND, whose loss is 0."""
    points: list[Params] = []
    state: bytes | None = None
    for _ in range(found_after):
        given = ask(points, state, follows=follows)
        points.append(given.items[0].params)
        state = given.state
    points.append(FOUND)
    distances = []
    for _ in range(10):
        given = ask(points, state, follows=follows)
        params = given.items[0].params
        distances.append(abs(float(params["x"]) - 0.95) + abs(float(params["y"]) - 0.05))
        points.append(params)
        state = given.state
    return sum(distances) / len(distances)


def test_it_starts_again_around_what_another_one_found() -> None:
    assert mean_distance(follows=True, found_after=3) < 0.3
    assert mean_distance(follows=False, found_after=3) > 0.5


def test_it_starts_around_the_best_where_others_came_first() -> None:
    points: list[Params] = [{"x": n / 20, "y": 1 - n / 20} for n in range(10)]
    given = ask([*points, FOUND], None, follows=True)
    params = given.items[0].params
    assert abs(float(params["x"]) - 0.95) + abs(float(params["y"]) - 0.05) < 0.4


def test_a_point_in_its_reach_changes_nothing() -> None:
    points: list[Params] = []
    states: dict[bool, bytes | None] = {True: None, False: None}
    for _ in range(20):
        given = {follows: ask(points, states[follows], follows=follows) for follows in states}
        assert given[True].items[0].params == given[False].items[0].params
        states = {follows: one.state for follows, one in given.items()}
        points.append({**given[True].items[0].params})


def test_an_arm_of_a_hybrid_follows_unless_it_is_told_not_to() -> None:
    arms = [{"name": "cmaes"}, {"name": "cmaes", "options": {"follows": False}}]
    assert [part.options["follows"] for part in parts("hybrid", {"arms": arms})] == [True, False]
