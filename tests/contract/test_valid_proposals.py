"""What no study can run is not proposed, by any proposer of this process that asks no model."""

from collections.abc import Sequence

import pytest

from ledger.digests import params_digest
from ledger.records import Direction, Objective, Params
from ledger.search import FinishedTrial, History
from ledger.states import Reason, TrialState
from proposers.host import ask
from proposers.random_search import MOST_PASSED_OVER
from proposers.registry import PROPOSERS, Setup, build_proposer, read_options
from proposers.search_space import Categorical, Float, Int, SearchSpace, cardinality, point

OBJECTIVE = Objective(metric="score", direction=Direction.MAXIMIZE)
SPACE: SearchSpace = {
    "group": Int(2, 8, step=2),
    "precision": Categorical(("bf16", "fp8")),
    "correction": Categorical(("none", "tis", "mis")),
}
NAMES = sorted(
    name
    for name, found in PROPOSERS.items()
    if not (found.asks_models or found.is_hosted or found.has_arms)
)


def is_valid(params: Params) -> bool:
    return params["precision"] == "bf16" or params["correction"] != "none"


def told(made: Sequence[Params]) -> History:
    finished = [
        FinishedTrial(
            number=number,
            params=params,
            state=TrialState.COMPLETE,
            value=float(number % 5),
            reason=Reason.WORSE,
            candidate_id=f"c{number}",
            kept=False,
        )
        for number, params in enumerate(made)
    ]
    return History(
        objective=OBJECTIVE,
        next_number=len(made),
        finished=finished,
        proposed={params_digest(params) for params in made},
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_valid_point_is_proposed_and_no_other(name: str) -> None:
    options: dict[str, object] = {"population": 8} if name == "nsga2" else {}
    setup = Setup(space=SPACE, options=read_options(name, options), is_valid=is_valid)
    proposer = build_proposer(name, setup)
    made: list[Params] = []
    state: bytes | None = None
    while True:
        given = ask(proposer, told(made), space=SPACE, count=3, seed=4, state=state)
        made += [proposal.params for proposal in given.items]
        state = given.state
        if len(given.items) < 3:
            break
    size = cardinality(SPACE) or 0
    valid = {params_digest(p) for p in (point(SPACE, n) for n in range(size)) if is_valid(p)}
    assert all(is_valid(params) for params in made)
    assert sorted(params_digest(params) for params in made) == sorted(valid)


@pytest.mark.parametrize("name", sorted({"random", "tpe"} & set(NAMES)))
def test_an_endless_space_without_a_valid_point_is_not_called_exhausted(name: str) -> None:
    space: SearchSpace = {"x": Float(0.0, 1.0)}
    setup = Setup(space=space, options=read_options(name, {}), is_valid=lambda params: False)
    given = ask(build_proposer(name, setup), told([]), space=space, count=2, seed=1, state=None)
    assert len(given.items) == 2


@pytest.mark.parametrize("name", ["grid", "random", "tpe"])
def test_a_huge_space_without_a_valid_point_is_neither_walked_through_nor_called_exhausted(
    name: str,
) -> None:
    space: SearchSpace = {f"x{number}": Int(0, 999) for number in range(6)}
    looked_at = 0

    def never(params: Params) -> bool:
        nonlocal looked_at
        looked_at += 1
        assert looked_at < 10 * MOST_PASSED_OVER
        return False

    setup = Setup(space=space, options=read_options(name, {}), is_valid=never)
    given = ask(build_proposer(name, setup), told([]), space=space, count=2, seed=1, state=None)
    assert len({params_digest(proposal.params) for proposal in given.items}) == 2
