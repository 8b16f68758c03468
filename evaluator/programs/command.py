"""Any command as an evaluator: it prints numbers, and they become scores with intervals.

Run as `python -I {bundle}/evaluate.py`. Options: `argv`, in which {artifact}, {split}, {bundle}
and {python} are replaced; `metrics`, the names it prints; `timeout_s`. The last line of its output
is one JSON object: `{"items": {"NAME": [numbers, one an item]}}`, whose means are the metrics, or
`{"metrics": {"NAME": number}}`, without intervals. The first name of `metrics` gives the items.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from evaluator.programs import scoring
from evaluator.programs.scoring import Estimate, Inputs, Result

TAIL_CHARS: Final = 400


@dataclass(frozen=True, slots=True)
class Options:
    argv: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    timeout_s: float = 600.0


def evaluate(options: Options, inputs: Inputs) -> Result:
    """Raises RuntimeError when the command fails: that is no fault of the artifact's."""
    if not options.argv or not options.metrics:
        raise RuntimeError("options: write argv, the command, and metrics, the names it prints")
    return read_result(printed(options, inputs), options.metrics)


def printed(options: Options, inputs: Inputs) -> str:
    places = {
        "{artifact}": str(inputs.artifact),
        "{split}": str(inputs.split),
        "{bundle}": str(inputs.bundle),
        "{python}": sys.executable,
    }
    argv = [replaced(argument, places) for argument in options.argv]
    # It must not write the score itself: what it prints is checked here.
    environment = {k: v for k, v in os.environ.items() if k != "ARL_SCORE_FD"}
    done = subprocess.run(
        argv,
        cwd=inputs.workspace,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=options.timeout_s,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]} left with exit status {done.returncode}")
    lines = done.stdout.strip().split("\n")
    if not lines[-1]:
        raise RuntimeError(f"{argv[0]} printed nothing; its last line must be a JSON object")
    return lines[-1]


def replaced(argument: str, places: Mapping[str, str]) -> str:
    for name, path in places.items():
        argument = argument.replace(name, path)
    return argument


def read_result(line: str, names: Sequence[str]) -> Result:
    """Raises RuntimeError: the line is not what the command must print."""
    try:
        document = json.loads(line)
    except ValueError:
        raise RuntimeError(f"the last line is not JSON: {line[:TAIL_CHARS]}") from None
    given = document if isinstance(document, dict) else {}
    items, single = (
        part if isinstance(part := given.get(name), dict) else {} for name in ("items", "metrics")
    )
    estimates = {}
    for name in names:
        values = numbers(items.get(name, [single[name]] if name in single else None))
        if not values:
            raise RuntimeError(f"the command gave no numbers for {name}: {line[:TAIL_CHARS]}")
        estimates[name] = Estimate(values)
    if len({len(estimate.values) for name, estimate in estimates.items() if name in items}) > 1:
        raise RuntimeError("the metrics' items are of different numbers")
    first = names[0]
    return Result(estimates, estimates[first].values if first in items else [])


def numbers(given: Any) -> list[float]:
    """A list of numbers as floats; empty for anything else."""
    if not isinstance(given, list):
        return []
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in given):
        return []
    return [float(value) for value in given]


if __name__ == "__main__":
    scoring.run("command", Options, evaluate)
