"""One search: a proposer driven through the real contract, or Optuna's own loop, on one problem.

What counts is the true value of the point that looked best, not the best value that was told:
with noise the two differ.
"""

import random
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.problems import Problem
from ledger.digests import params_digest
from ledger.records import Direction, Objective, Params, ParamValue
from ledger.search import FinishedTrial, History
from ledger.states import Reason, TrialState
from proposers.host import ask
from proposers.protocol import Closable, Proposer
from proposers.registry import Setup, find_proposer, read_options
from proposers.search_space import Categorical, Int, SearchSpace, in_order, is_active

CHECKPOINTS: Final = (10, 20, 50, 100, 200, 500, 1_000)
"""Trials after which a search is looked at, as far as it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A proposer with its options, or a sampler in Optuna's own loop."""

    label: str
    name: str
    options: Mapping[str, object] = field(default_factory=dict)
    is_optuna: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What came of one search."""

    regrets: list[float]
    """At each checkpoint: 0 is the best there is, 1 a usual point."""
    proposing_s: float
    """What the proposals took in all."""
    arms: Mapping[str, int] = field(default_factory=dict)
    """How many proposals each arm made, where there are arms."""


class Told:
    """The trials of one search, their values, and the best so far."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.problem = problem
        # Other draws on every problem, or a seed that is lucky on one is lucky on all of them.
        self.seed = random.Random(f"{problem.name}/{seed}").getrandbits(31)
        self._surface = problem.surface(seed)
        self._rng = random.Random(f"noise/{problem.name}/{seed}")
        self.best_told: float | None = None
        self.best_true = 0.0
        self.true_of_best: list[float] = []

    def evaluate(self, params: Params) -> tuple[float, bool]:
        """The value that is told, and whether it is the best so far."""
        true = self._surface(params)
        told = true + self.problem.noise(self._rng)
        ahead = self.best_told is None or (
            told > self.best_told
            if self.problem.direction is Direction.MAXIMIZE
            else told < self.best_told
        )
        if ahead:
            self.best_told, self.best_true = told, true
        self.true_of_best.append(self.best_true)
        return told, ahead

    def regrets(self, trials: int) -> list[float]:
        """At each checkpoint up to `trials`."""
        last = len(self.true_of_best)
        marks = [min(mark, last) for mark in CHECKPOINTS if mark <= trials]
        return [self.problem.regret(self.true_of_best[mark - 1]) for mark in marks]


def search(method: Method, problem: Problem, *, seed: int, trials: int, batch: int) -> Search:
    """Propose `batch` points, try them one after the other, and so on. A space that is exhausted
    ends the search early: its best counts from then on."""
    told = Told(problem, seed)
    if method.is_optuna:
        proposing_s = _optuna(method.name, told, trials=trials, batch=batch)
        return Search(regrets=told.regrets(trials), proposing_s=proposing_s)
    setup = Setup(space=problem.space, options=read_options(method.name, method.options))
    # In this process also where a study would give it one of its own: it proposes the same.
    proposer = find_proposer(method.name).build(setup)
    try:
        return _drive(proposer, method, told, trials=trials, batch=batch)
    finally:
        if isinstance(proposer, Closable):
            proposer.close()


# --- ours ----------------------------------------------------------------------------------------


def _drive(proposer: Proposer, method: Method, told: Told, *, trials: int, batch: int) -> Search:
    problem = told.problem
    objective = Objective(metric="value", direction=problem.direction)
    finished: list[FinishedTrial] = []
    proposed: set[str] = set()
    arms: dict[str, int] = {}
    state: bytes | None = None
    proposing_s = 0.0
    while len(finished) < trials:
        history = History(
            objective=objective,
            next_number=len(finished),
            finished=finished,
            proposed=proposed,
            noise_floor=problem.noise_floor,
            best=told.best_told,
            trials_left=trials - len(finished),
        )
        count = min(batch, trials - len(finished))
        began = time.perf_counter()
        given = ask(
            proposer, history, space=problem.space, count=count, seed=told.seed, state=state
        )
        proposing_s += time.perf_counter() - began
        if not given.items:
            break
        state = given.state
        proposed.update(params_digest(item.params) for item in given.items)
        for item in given.items:
            made_by = item.proposer or method.name
            arms[made_by] = arms.get(made_by, 0) + 1
            finished.append(_finished(len(finished), item.params, made_by, told))
    return Search(regrets=told.regrets(trials), proposing_s=proposing_s, arms=arms)


def _finished(number: int, params: Params, made_by: str, told: Told) -> FinishedTrial:
    value, is_ahead = told.evaluate(params)
    return FinishedTrial(
        number=number,
        params=params,
        state=TrialState.COMPLETE,
        value=value,
        reason=Reason.BETTER if is_ahead else Reason.WORSE,
        candidate_id=str(number),
        kept=is_ahead,
        scores={"value": value},
        proposer=made_by,
    )


# --- Optuna's own loop ---------------------------------------------------------------------------


def _optuna(name: str, told: Told, *, trials: int, batch: int) -> float:
    """Ask, suggest as a program does, tell; a batch is asked for before any of it is told. The
    seconds it took."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        sampler=_sampler(name, told.seed), direction=str(told.problem.direction.value)
    )
    proposing_s = 0.0
    done = 0
    while done < trials:
        asked = []
        began = time.perf_counter()
        for _ in range(min(batch, trials - done)):
            trial = study.ask()
            asked.append((trial, suggest(trial, told.problem.space)))
        for trial, params in asked:
            value, _ = told.evaluate(params)
            study.tell(trial, value)
        proposing_s += time.perf_counter() - began
        done += len(asked)
    return proposing_s


def _sampler(name: str, seed: int) -> Any:
    import optuna.samplers as s

    makers: dict[str, Callable[[], Any]] = {
        "random": lambda: s.RandomSampler(seed=seed),
        "tpe": lambda: s.TPESampler(seed=seed),
        "cmaes": lambda: s.CmaEsSampler(seed=seed, warn_independent_sampling=False),
        "nsga2": lambda: s.NSGAIISampler(seed=seed),
        "sobol": lambda: s.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False),
        "gp": lambda: s.GPSampler(seed=seed),
    }
    with warnings.catch_warnings():  # Optuna calls some of them experimental
        warnings.simplefilter("ignore")
        return makers[name]()


def suggest(trial: Any, space: SearchSpace) -> Params:
    params: dict[str, ParamValue] = {}
    for name in in_order(space):
        distribution = space[name]
        if not is_active(space, name, params):
            continue
        if isinstance(distribution, Categorical):
            params[name] = trial.suggest_categorical(name, distribution.choices)
        elif isinstance(distribution, Int):
            params[name] = trial.suggest_int(
                name, distribution.low, distribution.high, log=distribution.log
            )
        else:
            params[name] = trial.suggest_float(
                name, distribution.low, distribution.high, log=distribution.log
            )
    return params
