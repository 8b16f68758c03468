"""Optuna's samplers as proposers: exactly resumable, bounded in cost, and no worse than Optuna."""

import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import optuna
import pytest

from ledger.digests import params_digest
from ledger.errors import InvalidInput
from ledger.records import Direction, Objective, Params
from ledger.search import Constraint, FinishedTrial, History, PendingTrial, Proposals
from ledger.states import Reason, TrialState
from proposers.optuna_memory import Memory
from proposers.optuna_samplers import TPE_CAP
from proposers.optuna_space import CodedSpace
from proposers.protocol import Proposer
from proposers.registry import PROPOSERS, Setup, build_here, read_options
from proposers.search_space import Categorical, Float, Int, SearchSpace, faults

SAMPLERS = ("cmaes", "gp", "nsga2", "sobol", "tpe")
QUICK = tuple(name for name in SAMPLERS if name != "gp")
DOWN = Objective(metric="loss", direction=Direction.MINIMIZE)
UP = Objective(metric="gain", direction=Direction.MAXIMIZE)
OPTIONS: dict[str, dict[str, object]] = {
    "nsga2": {"population": 6},
    "gp": {"startup_trials": 12},
    "cmaes": {"population": 5},
}
BOWL: SearchSpace = {"x": Float(-5.0, 5.0), "y": Float(-5.0, 5.0)}


def bowl(params: Params) -> float:
    return float(params["x"]) ** 2 + (float(params["y"]) - 1.0) ** 2


@dataclass
class Search:
    """A study driven by hand whose trials finish a few at a time."""

    name: str
    space: SearchSpace
    value: Callable[[Params], float] = bowl
    objective: Objective = DOWN
    further: Sequence[Objective] = ()
    constraints: Sequence[Constraint] = ()
    scores: Callable[[Params], dict[str, float]] = lambda params: {}
    seed: int = 0
    options: dict[str, object] | None = None
    finished: list[FinishedTrial] = field(default_factory=list)
    pending: list[Params] = field(default_factory=list)
    proposed: set[str] = field(default_factory=set)
    state: bytes | None = None
    proposer: Proposer = field(init=False)

    def __post_init__(self) -> None:
        self.proposer = self.fresh()

    def fresh(self) -> Proposer:
        options = OPTIONS.get(self.name, {}) if self.options is None else self.options
        setup = Setup(space=self.space, options=read_options(self.name, options))
        return build_here(self.name, setup)

    def history(self) -> History:
        return History(
            objective=self.objective,
            next_number=len(self.finished) + len(self.pending),
            finished=self.finished,
            pending=[
                PendingTrial(number=n, params=params, candidate_id="c")
                for n, params in enumerate(self.pending)
            ],
            proposed=self.proposed,
            further=self.further,
            constraints=self.constraints,
        )

    def ask(self, count: int = 1, proposer: Proposer | None = None) -> Proposals:
        return (proposer or self.proposer).propose(
            self.history(), count=count, seed=self.seed, state=self.state
        )

    def take(self, given: Proposals) -> None:
        self.state = given.state
        for item in given.items:
            assert params_digest(item.params) not in self.proposed
            self.pending.append(item.params)
            self.proposed.add(params_digest(item.params))

    def finish(self, state: TrialState = TrialState.COMPLETE) -> None:
        params = self.pending.pop(0)
        complete = state is TrialState.COMPLETE
        self.finished.append(
            FinishedTrial(
                number=len(self.finished),
                params=params,
                state=state,
                value=self.value(params) if complete else None,
                reason=Reason.WORSE if complete else Reason.CRASHED,
                candidate_id="c",
                kept=False,
                scores=self.scores(params) if complete else {},
            )
        )

    def run(self, trials: int) -> "Search":
        for _ in range(trials):
            self.take(self.ask())
            self.finish()
        return self

    def best(self) -> float:
        values = [t.value for t in self.finished if t.value is not None]
        return min(values) if self.objective.direction is Direction.MINIMIZE else max(values)


# --- resuming ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_kill_between_any_two_calls_changes_no_proposal(name: str) -> None:
    """The living object and one made after the kill agree, while trials are pending, fail, are
    pruned, and generations turn."""
    search = Search(name, BOWL, seed=5)
    for step in range(10 if name == "gp" else 30):
        given = search.ask(2)
        assert search.ask(2, search.fresh()) == given
        search.take(given)
        search.finish()
        search.finish(
            (TrialState.COMPLETE, TrialState.FAILED, TrialState.PRUNED)[step % 3]
            if step % 2
            else TrialState.COMPLETE
        )
        search.take(search.ask(1))


@pytest.mark.parametrize("name", QUICK)
def test_a_call_whose_commit_failed_is_answered_the_same_again(name: str) -> None:
    search = Search(name, BOWL).run(15)
    assert search.ask(3) == search.ask(3)


@pytest.mark.parametrize("name", QUICK)
def test_another_seed_proposes_something_else(name: str) -> None:
    assert Search(name, BOWL, seed=1).ask(3).items != Search(name, BOWL, seed=2).ask(3).items


@pytest.mark.parametrize("name", ["cmaes", "nsga2", "sobol"])
def test_the_state_of_another_space_is_no_state(name: str) -> None:
    search = Search(name, BOWL).run(15)
    wider: SearchSpace = {**BOWL, "z": Float(0.0, 1.0)}
    other = Search(name, wider)
    assert (
        other.fresh().propose(other.history(), count=1, seed=0, state=search.state) == other.ask()
    )


# --- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cmaes", "tpe", "nsga2"])
@pytest.mark.parametrize("objective", [DOWN, UP])
def test_learns_a_bowl_in_both_directions(name: str, objective: Objective) -> None:
    sign = 1.0 if objective is DOWN else -1.0
    bests = [
        Search(name, BOWL, lambda p: sign * bowl(p), objective, seed=seed).run(70).best() * sign
        for seed in range(3)
    ]
    assert statistics.median(bests) < 0.35


def test_gp_finds_a_bowls_bottom_in_a_few_trials() -> None:
    assert Search("gp", BOWL, seed=2).run(20).best() < 0.05


def test_what_breaks_a_constraint_is_left_behind() -> None:
    """The bowl's bottom is forbidden: x must be at least 1."""
    limit = (Constraint(metric="x", low=1.0),)
    for name in ("tpe", "cmaes"):
        search = Search(
            name, BOWL, constraints=limit, scores=lambda p: {"x": float(p["x"])}, seed=3
        ).run(80)
        late = [t for t in search.finished[-30:] if float(t.params["x"]) >= 1.0]
        assert len(late) > 15, name
        assert min(t.value or 0.0 for t in late) < 2.0


@pytest.mark.parametrize("name", ["nsga2", "tpe"])
def test_two_objectives_come_to_a_front_that_random_points_do_not(name: str) -> None:
    def run(sampler: str) -> float:
        search = Search(
            sampler,
            BOWL,
            value=lambda p: float(p["x"]) ** 2 + float(p["y"]) ** 2,
            further=(UP,),
            scores=lambda p: {"gain": -((float(p["x"]) - 2) ** 2) - float(p["y"]) ** 2},
            seed=1,
        ).run(90)
        front = [abs(float(t.params["y"])) for t in search.finished[-30:]]
        return statistics.median(front)

    assert run(name) < run("random") * 0.65


def test_running_trials_are_taken_into_account() -> None:
    """Twenty proposals at once are not twenty times nearly the same."""
    search = Search("tpe", BOWL, seed=4).run(30)
    batch = search.ask(20).items
    xs = [float(item.params["x"]) for item in batch]
    assert statistics.stdev(xs) > 0.1
    assert len({params_digest(item.params) for item in batch}) == 20


def test_the_baseline_is_one_of_the_known_trials() -> None:
    search = Search("tpe", BOWL, options={"startup_trials": 1})
    known = search.history()
    told = History(
        objective=DOWN,
        next_number=0,
        baseline=(2.0, 2.2),
        baseline_params={"x": 1.0, "y": 0.5},
    )
    first = search.proposer.propose(told, count=1, seed=0, state=None)
    assert first != search.proposer.propose(known, count=1, seed=0, state=None)


def test_tpe_is_on_par_with_optuna() -> None:
    def theirs(seed: int) -> float:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))

        def objective(trial: optuna.Trial) -> float:
            return bowl({n: trial.suggest_float(n, -5.0, 5.0) for n in ("x", "y")})

        study.optimize(objective, n_trials=60)
        return float(study.best_value)

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ours = statistics.median(Search("tpe", BOWL, seed=s).run(60).best() for s in range(7))
    assert ours < 4 * statistics.median(theirs(s) for s in range(7)) + 0.02


# --- the space -----------------------------------------------------------------------------------

AWKWARD: SearchSpace = {
    "kind": Categorical((1, 1.0, True, "1", "größe")),
    "only": Categorical(("one",)),
    "stepped": Float(0.0, 0.3, step=0.1),
    "logs": Float(1.0, 100.0, log=True, step=0.5),
    "units": Int(4, 30, step=8),
    "huge": Int(0, 10**15),
    "log_int": Int(1, 1000, log=True, step=3),
    "λ": Float(1e-300, 1e300, log=True),
}


@pytest.mark.parametrize("name", QUICK)
def test_every_value_comes_back_as_it_is_typed(name: str) -> None:
    search = Search(name, AWKWARD, value=lambda p: float(p["stepped"])).run(40)
    points = [t.params for t in search.finished]
    assert all(not list(faults(AWKWARD, params)) for params in points)
    assert {type(params["kind"]) for params in points} == {int, float, bool, str}
    coded = CodedSpace(AWKWARD)
    for params in points:
        numbers = coded.encode(params)
        assert numbers is not None
        back = {n: coded.codes[n].decode(v) for n, v in numbers.items()} | {"only": "one"}
        assert params_digest(back) == params_digest(params)


@pytest.mark.parametrize("name", ["tpe", "nsga2", "sobol", "cmaes"])
def test_two_hundred_parameters(name: str) -> None:
    space: SearchSpace = {f"p{i}": Float(0.0, 1.0) for i in range(200)}
    search = Search(name, space, value=lambda p: float(p["p0"]), options={})
    search.run(12)
    assert len(search.finished[-1].params) == 200


@pytest.mark.parametrize("name", QUICK)
def test_a_history_of_failures_only_goes_on(name: str) -> None:
    search = Search(name, BOWL)
    for _ in range(25):
        search.take(search.ask())
        search.finish(TrialState.FAILED)
    assert len(search.ask(3).items) == 3


@pytest.mark.parametrize("name", ["tpe", "sobol", "nsga2"])
def test_a_space_of_one_point_gives_it_once_and_an_empty_one_nothing(name: str) -> None:
    one = Search(name, {"a": Categorical((7,))})
    assert [item.params for item in one.ask(3).items] == [{"a": 7}]
    assert Search(name, {}).ask(3).items == ()


def test_cmaes_says_what_it_cannot_search() -> None:
    with pytest.raises(InvalidInput, match="cmaes needs a number that exists in every point"):
        Search("cmaes", {"a": Categorical((1, 2))})


def test_points_of_an_older_space_are_passed_over() -> None:
    search = Search("tpe", BOWL)
    search.pending = [{"x": 99.0, "y": 0.0}, {"z": 1.0}]
    search.value = lambda params: 0.0
    search.finish()
    search.finish()
    assert len(search.ask(2).items) == 2


# --- cost ----------------------------------------------------------------------------------------


def test_a_long_study_shows_a_sampler_few_trials_the_best_among_them() -> None:
    search = Search("sobol", BOWL)
    for number in range(3000):
        search.pending.append({"x": math.sin(number) * 5, "y": math.cos(number * 0.7) * 5})
        search.finish()
    whole = Memory(CodedSpace(BOWL), cap=TPE_CAP, imputes=False)
    whole.update(search.history())
    assert len(whole.kept) <= TPE_CAP * 5 // 4
    best = sorted(t.value or 0.0 for t in search.finished)[:25]
    assert set(best) <= {trial.values[0] for trial in whole.kept}
    piecewise = Memory(CodedSpace(BOWL), cap=TPE_CAP, imputes=False)
    everything = search.finished
    for upto in (1, 3, 499, 500, 501, 1700, 3000):
        search.finished = everything[:upto]
        piecewise.update(search.history())
    assert [t.number for t in piecewise.kept] == [t.number for t in whole.kept]


def test_optuna_is_imported_only_by_studies_that_use_it() -> None:
    code = (
        "import sys, controller.wiring, controller.spec.loading\n"
        "from proposers.registry import *\n"
        "from proposers.search_space import Float\n"
        "build_proposer('random', Setup(space={'x': Float(0, 1)}, options=NoOptions()))\n"
        "assert not {'optuna', 'numpy', 'scipy', 'torch', 'cmaes'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False)
    assert done.returncode == 0


def test_what_is_missing_is_said_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proposers.registry.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"optuna missing; pip install 'arl\[optuna\]'"):
        Search("tpe", BOWL)
    assert PROPOSERS["gp"].modules == ("optuna", "scipy", "torch")
