"""Every registered proposer keeps to the contract. To test a new one: register it."""

import copy
import os
import random
import signal
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.digest_set import DigestSet
from ledger.digests import params_digest
from ledger.finished_trials import BLOCK, FinishedTrials
from ledger.records import Direction, Objective, Params
from ledger.search import FinishedTrial, History, PendingTrial, Proposal
from ledger.states import Reason, TrialState
from proposers.host import ask
from proposers.options import HostedOptions
from proposers.protocol import Closable, Proposer
from proposers.registry import PROPOSERS, Setup, build_here, build_proposer, read_options
from proposers.search_space import (
    Categorical,
    Float,
    Int,
    SearchSpace,
    cardinality,
    faults,
    sample,
)
from tests.hosted_proposers import pid_of

OBJECTIVE = Objective(metric="score", direction=Direction.MAXIMIZE)
FINITE: SearchSpace = {
    "units": Int(4, 16, step=4),
    "drop": Float(0.0, 0.3, step=0.1),
    "act": Categorical(("tanh", "relu", True)),
}
SIZE = 48
CONTINUOUS: SearchSpace = {**FINITE, "lr": Float(1e-5, 1e-1, log=True)}

NAMES = sorted(name for name, found in PROPOSERS.items() if not found.asks_models)
"""Those that ask language models keep to it in test_model_proposers.py, with a server."""
LEARNING = frozenset({"cmaes", "gp", "hybrid", "nsga2", "ppo", "tpe"})
"""Those whose proposals depend on what came of the earlier ones."""
OPTIONS: dict[str, dict[str, object]] = {
    "gp": {"startup_trials": 45},  # each modelled point takes a second
    "nsga2": {"population": 8},
    "hybrid": {"mode": "bandit", "arms": [{"name": "random"}, {"name": "tpe"}]},
}


def setup_of(name: str, space: SearchSpace) -> Setup:
    return Setup(space=space, options=read_options(name, OPTIONS.get(name, {})))


@dataclass
class Study:
    """A study driven by hand: proposals become trials that finish in a scrambled order."""

    name: str
    space: SearchSpace
    seed: int = 0
    params: list[Params] = field(default_factory=list)
    state: bytes | None = None
    exhausted: bool = False
    living: Proposer | None = None
    """Asked again and again; default: a fresh proposer each time, as after a restart."""

    def history(self) -> History:
        finished = [
            FinishedTrial(
                number=number,
                params=params,
                state=TrialState.COMPLETE if number % 5 else TrialState.FAILED,
                value=float(number % 7) if number % 5 else None,
                reason=Reason.WORSE if number % 5 else Reason.CRASHED,
                candidate_id=f"c{number}",
                kept=False,
            )
            for number, params in enumerate(self.params[:-1])
        ]
        pending = [
            PendingTrial(number=len(finished), params=params, candidate_id="c")
            for params in self.params[-1:]
        ]
        return History(
            objective=OBJECTIVE,
            next_number=len(self.params),
            finished=finished[::-1],
            pending=pending,
            proposed=frozenset(params_digest(params) for params in self.params),
        )

    def ask(self, count: int) -> list[Proposal]:
        proposer = self.living or build_here(self.name, setup_of(self.name, self.space))
        given = ask(
            proposer,
            self.history(),
            space=self.space,
            count=count,
            seed=self.seed,
            state=self.state,
        )
        self.state = given.state
        self.exhausted = len(given.items) < count
        self.params += [proposal.params for proposal in given.items]
        return list(given.items)


def uninterrupted(name: str, space: SearchSpace, seed: int = 0) -> Study:
    return Study(name, space, seed, living=build_here(name, setup_of(name, space)))


def space_for(name: str) -> SearchSpace:
    return FINITE if name == "grid" else CONTINUOUS


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_equal_arguments_give_equal_proposals(name: str) -> None:
    one, two = Study(name, space_for(name)), Study(name, space_for(name))
    assert one.ask(5) == two.ask(5)
    assert one.state == two.state


def test_at_most_as_many_as_asked_for(name: str) -> None:
    study = Study(name, space_for(name))
    assert study.ask(0) == []
    assert len(study.ask(3)) == 3


def test_the_history_is_left_alone(name: str) -> None:
    study = Study(name, space_for(name))
    study.ask(4)
    history = study.history()
    before = copy.deepcopy(history)
    build_here(name, setup_of(name, study.space)).propose(
        history, count=3, seed=0, state=study.state
    )
    assert history == before


def test_nothing_is_proposed_twice(name: str) -> None:
    study = Study(name, FINITE)
    study.ask(20)
    study.ask(20)
    assert len({params_digest(params) for params in study.params}) == 40


def test_a_finite_space_ends_after_its_last_point(name: str) -> None:
    assert cardinality(FINITE) == SIZE
    study = Study(name, FINITE)
    while not study.exhausted:
        study.ask(7)
    assert len(study.params) == SIZE
    assert study.ask(1) == []


@given(
    batches=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    seed=st.integers(0, 2**53 - 1),
    finite=st.booleans(),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("name", sorted(set(NAMES) - LEARNING))
def test_any_batching_with_a_restart_between_gives_the_uninterrupted_sequence(
    name: str, batches: list[int], seed: int, finite: bool
) -> None:
    space = FINITE if finite else space_for(name)
    straight = Study(name, space, seed)
    straight.ask(sum(batches))
    restarted = Study(name, space, seed)
    for count in batches:
        restarted.ask(count)
    assert restarted.params == straight.params
    assert restarted.exhausted == straight.exhausted or len(straight.params) == SIZE


@pytest.mark.parametrize("name", sorted(set(NAMES) - LEARNING))
def test_twenty_five_and_a_restart_and_twenty_five_more_are_fifty(name: str) -> None:
    straight, resumed = Study(name, space_for(name), 9), Study(name, space_for(name), 9)
    straight.ask(48)
    resumed.ask(25)
    resumed.ask(23)
    assert resumed.params == straight.params


@pytest.mark.parametrize("conditional", [False, True])
def test_a_restart_before_every_call_changes_nothing(name: str, conditional: bool) -> None:
    space = with_condition(name) if conditional else space_for(name)
    straight, restarted = uninterrupted(name, space, 9), Study(name, space, 9)
    for count in (1, 3, 5, 1, 1, 8, 2, 12, 1, 1, 11):
        assert restarted.ask(count) == straight.ask(count)
        assert restarted.state == straight.state


def with_condition(name: str) -> SearchSpace:
    """A space with parameters that exist in some points only, one of them below another."""
    return {
        **space_for(name),
        "kind": Categorical((1, 1.0, True, "1")),
        "depth": Int(1, 9, when=(("kind", (True,)),)),
        "mode": Categorical(("a", "b"), when=(("kind", (1, True)),)),
        "width": Float(0.1, 0.9, step=0.2, when=(("kind", (1, True)), ("mode", ("b",)))),
    }


def test_conditional_parameters_exist_exactly_when_they_should(name: str) -> None:
    space = with_condition(name)
    study = Study(name, space)
    for _ in range(8):
        study.ask(5)
    assert len({params_digest(params) for params in study.params}) == 40
    assert all(not list(faults(space, params)) for params in study.params)


def test_the_spaces_order_of_keys_changes_nothing(name: str) -> None:
    space = space_for(name)
    turned = dict(reversed(space.items()))
    assert Study(name, turned).ask(20) == Study(name, space).ask(20)


@pytest.mark.parametrize("name", sorted(set(NAMES) - LEARNING))
def test_the_finished_trials_are_not_walked(name: str) -> None:
    space: SearchSpace = {**FINITE, "wide": Int(0, 10**9)}
    study = Study(name, space)
    study.ask(3)

    class Unwalkable(list[FinishedTrial]):
        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("the finished trials were walked")

    history = study.history()
    walked = History(
        objective=OBJECTIVE,
        next_number=history.next_number,
        finished=Unwalkable(history.finished),
        pending=history.pending,
        proposed=history.proposed,
    )
    given = build_here(name, setup_of(name, space)).propose(
        walked, count=2, seed=0, state=study.state
    )
    assert len(given.items) == 2


@pytest.mark.parametrize("name", sorted(n for n, found in PROPOSERS.items() if found.is_hosted))
def test_a_hosted_one_that_is_killed_goes_on_as_if_nothing_had_been(name: str) -> None:
    options = read_options(name, {"startup_trials": 2} if name == "gp" else {})
    setup = Setup(space=CONTINUOUS, options=options)
    straight, killed = (
        Study(name, CONTINUOUS, 9, living=build_proposer(name, setup)) for _ in range(2)
    )
    for place, count in enumerate((4, 1, 2)):
        if place == 2:
            os.kill(pid_of(killed.living), signal.SIGKILL)
        assert killed.ask(count) == straight.ask(count)
        assert killed.state == straight.state
    for study in (straight, killed):
        assert isinstance(study.living, Closable)
        study.living.close()


def test_what_is_hosted_is_registered_as_one_that_can_be() -> None:
    hosted = {name: found for name, found in PROPOSERS.items() if found.is_hosted}
    assert {"gp", "ppo"} <= hosted.keys()
    for name, found in hosted.items():
        assert issubclass(found.options, HostedOptions), name
        assert found.is_slow, "its calls must not hold up the loop"
        assert not found.asks_models, name
        assert not found.writes_patches, name


def test_a_packed_history_gives_the_same_proposals(name: str) -> None:
    """What does not go over all of it again and again is told a long one packed away."""
    if PROPOSERS[name].is_hosted or PROPOSERS[name].has_arms:
        pytest.skip("it is always told a plain list")
    space = space_for(name)
    rng, told = random.Random(2), Study(name, space)
    told.params = [sample(space, rng) for _ in range(BLOCK + 20)]
    plain = told.history()
    packed = FinishedTrials()
    for trial in plain.finished:
        packed.append(trial)
    proposed = DigestSet(bytes.fromhex(digest) for digest in plain.proposed)
    given = [
        build_here(name, setup_of(name, space)).propose(history, count=3, seed=1, state=None)
        for history in (plain, replace(plain, finished=packed, proposed=proposed))
    ]
    assert given[0] == given[1]
    assert given[0].state == given[1].state
