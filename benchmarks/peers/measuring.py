"""What the adapters share: arguments in, completion times out, as one JSON line."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TRAIN = ("/bin/sh", "-c", ":")
"""The no-op training program of every system."""
EVALUATE = ("/bin/sh", "-c", "echo score=0.5")
"""The no-op evaluator: a second process, which prints a number."""


def parse_arguments(modes: Sequence[str] = ("default",)) -> argparse.Namespace:
    """`--trials`, `--parallel`, `--mode`, and `--work`, which becomes the current directory."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, required=True)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--mode", choices=modes, default=modes[0])
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    os.chdir(arguments.work)
    return arguments


def quiet_stdout() -> int:
    """Send what the library prints to stderr; returns a descriptor of the real stdout."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def print_times(stdout: int, completed_s: Sequence[float], started_s: float) -> None:
    """One line: seconds from the first launch to each completion, in order."""
    times = [round(t - started_s, 6) for t in sorted(completed_s)]
    os.write(stdout, (json.dumps({"completed_s": times}) + "\n").encode())


class Completions:
    """Collects the moments at which trials completed."""

    def __init__(self) -> None:
        self.started_s = time.monotonic()
        self.times_s: list[float] = []

    def add(self) -> None:
        self.times_s.append(time.monotonic())

    def print_to(self, stdout: int) -> None:
        print_times(stdout, self.times_s, self.started_s)
        sys.stdout.flush()
