"""What one proposal costs after 100, 1,000 and 5,000 trials, beside Optuna's own ask and tell.

    python -m benchmarks.proposal_latency --json FILE [--sampler tpe] [--proposals 20]

Both sides search the same six-parameter space, know the same finished trials in memory, and take
one result in before each proposal, in one process and in turn; a proposer that has a process of
its own is asked through that one, as in a study. `hybrid` is a bandit over tpe and random;
`hosted` is random in a process of its own: what such a process adds. Times are medians in
milliseconds; on a busy machine read the ratios.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.reports import write_report
from ledger.digests import params_digest
from ledger.records import Direction, Objective, Params
from ledger.search import FinishedTrial, History
from ledger.states import Reason, TrialState
from proposers.host import number_rng
from proposers.hosted import Hosted
from proposers.hosted_messages import Build
from proposers.protocol import Closable, Proposer
from proposers.random_search import RandomSearch, anything
from proposers.registry import PROPOSERS, Setup, build_proposer, read_options
from proposers.search_space import Categorical, Float, Int, SearchSpace, sample

SPACE: Final[SearchSpace] = {
    "x": Float(-5.0, 5.0),
    "y": Float(-5.0, 5.0),
    "lr": Float(1e-5, 1.0, log=True),
    "units": Int(1, 512, log=True),
    "depth": Int(1, 12),
    "act": Categorical(("relu", "gelu", "tanh")),
}
GRID: Final[SearchSpace] = {f"p{i}": Int(0, 9) for i in range(6)}
SIZES: Final = (100, 1_000, 5_000)
SAMPLERS: Final = (
    *("random", "hosted", "grid", "sobol", "tpe", "cmaes", "nsga2", "ppo", "hybrid", "gp"),
)
ARMS: Final = ("tpe", "random")
OPTIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "hybrid": {"mode": "bandit", "cost": "trials", "arms": [{"name": name} for name in ARMS]}
}
OBJECTIVE: Final = Objective(metric="loss", direction=Direction.MINIMIZE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    sampler: str
    trials: int
    arl_ms: float
    optuna_ms: float | None
    """None where Optuna has no such sampler, or takes minutes."""


def loss(params: Params) -> float:
    return sum(value * value for value in params.values() if isinstance(value, int | float))


def _finished(number: int, params: Params, made_by: str) -> FinishedTrial:
    return FinishedTrial(
        number=number,
        params=params,
        state=TrialState.COMPLETE,
        value=loss(params),
        reason=Reason.WORSE,
        candidate_id=str(number),
        kept=False,
        proposer=made_by,
    )


def _built(sampler: str, space: SearchSpace) -> Proposer:
    setup = Setup(space=space, options=read_options(sampler, OPTIONS.get(sampler, {})))
    return build_proposer(sampler, setup)


def _hosted_random() -> Proposer:
    build = Build(name="random", make=partial(RandomSearch, SPACE), space=SPACE)
    return Hosted(build, is_valid=anything, call_s=60.0)


def arl_ms(sampler: str, size: int, proposals: int) -> float:
    """The median over `proposals`; the trials before are known from one earlier call."""
    space = GRID if sampler == "grid" else SPACE
    proposer = _hosted_random() if sampler == "hosted" else _built(sampler, space)
    points = [sample(space, number_rng(0, number)) for number in range(size)]
    made_by = [f"hybrid/{arm}" for arm in ARMS] if sampler == "hybrid" else [sampler]
    finished = [
        _finished(number, params, made_by[number % len(made_by)])
        for number, params in enumerate(points)
    ]
    proposed = {params_digest(params) for params in points}
    state: bytes | None = None
    times = []
    for number in range(size, size + proposals + 1):
        history = History(
            objective=OBJECTIVE, next_number=number, finished=finished, proposed=proposed
        )
        began = time.perf_counter()
        given = proposer.propose(history, count=1, seed=0, state=state)
        times.append(time.perf_counter() - began)
        state = given.state
        (item,) = given.items
        finished.append(_finished(number, item.params, item.proposer or sampler))
        proposed.add(params_digest(item.params))
    if isinstance(proposer, Closable):
        proposer.close()
    return statistics.median(times[1:]) * 1000


def optuna_ms(sampler: str, size: int, proposals: int) -> float | None:
    """Optuna's own study in memory: ask, suggest, tell."""
    import optuna
    from optuna import distributions as d

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    makers: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
        "random": lambda: optuna.samplers.RandomSampler(seed=0),
        "sobol": lambda: optuna.samplers.QMCSampler(scramble=True, seed=0),
        "tpe": lambda: optuna.samplers.TPESampler(seed=0),
        "cmaes": lambda: optuna.samplers.CmaEsSampler(seed=0, warn_independent_sampling=False),
        "nsga2": lambda: optuna.samplers.NSGAIISampler(seed=0),
        "gp": lambda: optuna.samplers.GPSampler(seed=0),
    }
    if sampler not in makers or (sampler == "gp" and size > SIZES[0]):
        return None
    space = {
        "x": d.FloatDistribution(-5.0, 5.0),
        "y": d.FloatDistribution(-5.0, 5.0),
        "lr": d.FloatDistribution(1e-5, 1.0, log=True),
        "units": d.IntDistribution(1, 512, log=True),
        "depth": d.IntDistribution(1, 12),
        "act": d.CategoricalDistribution(("relu", "gelu", "tanh")),
    }
    study = optuna.create_study(sampler=makers[sampler]())
    for number in range(size):
        params = sample(SPACE, number_rng(0, number))
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions=space, value=loss(params))
        )
    times = []
    for _ in range(proposals + 1):
        began = time.perf_counter()
        trial = study.ask(space)
        study.tell(trial, loss(trial.params))
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:]) * 1000


def measure(sampler: str, size: int, proposals: int) -> Row:
    few = min(proposals, 3) if sampler == "gp" else proposals
    return Row(
        sampler=sampler,
        trials=size,
        arl_ms=round(arl_ms(sampler, size, few), 3),
        optuna_ms=None if (other := optuna_ms(sampler, size, few)) is None else round(other, 3),
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proposal_latency",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--sampler", action="append", choices=SAMPLERS, help="only this one")
    parser.add_argument("--proposals", type=int, default=20, help="measured at each size")
    options = parser.parse_args(argv)
    rows: list[Row] = []
    print(f"{'sampler':8} {'trials':>6} {'ARL, ms':>9} {'Optuna, ms':>11} {'ARL, times 100':>15}")
    for sampler in options.sampler or [n for n in SAMPLERS if n == "hosted" or n in PROPOSERS]:
        first: Row | None = None
        for size in SIZES:
            row = measure(sampler, size, options.proposals)
            first = first or row
            rows.append(row)
            other = "-" if row.optuna_ms is None else f"{row.optuna_ms:.2f}"
            growth = row.arl_ms / first.arl_ms
            print(f"{sampler:8} {size:6} {row.arl_ms:9.2f} {other:>11} {growth:15.2f}", flush=True)
    write_report(options.json, [asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
