"""The launcher of several ranks: one status for all, and one line that says which failed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from inner_trials import contract
from tests.integration import sft_runs

PROGRAM = """
import os, signal, sys, time
rank, done = int(os.environ["RANK"]), {statuses}
print("rank", rank, "of", os.environ["WORLD_SIZE"], file=sys.stderr, flush=True)
if rank in done:
    if done[rank] < 0:
        os.kill(os.getpid(), -done[rank])
    time.sleep(0.2 * rank)
    sys.exit(done[rank])
time.sleep(600)
"""
LAUNCH = """
import sys
from pathlib import Path
from inner_trials import ranks
sys.exit(ranks.launch("stub", {count}, Path({scratch!r})))
"""


def launched(directory: Path, statuses: dict[int, int], count: int) -> tuple[int, str]:
    """Ranks that leave with these statuses; those without one stay until they are ended."""
    code = sft_runs.code(directory)
    (code / "inner_trials" / "stub.py").write_text(PROGRAM.format(statuses=statuses))
    done = subprocess.run(
        [sys.executable, "-P", "-c", LAUNCH.format(count=count, scratch=str(directory))],
        env={"PYTHONPATH": str(code)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("status", [0, contract.EXIT_STOPPED])
def test_what_all_ranks_say_is_the_status_and_only_the_first_is_heard(
    status: int, tmp_path: Path
) -> None:
    found, log = launched(tmp_path, dict.fromkeys(range(3), status), 3)
    assert (found, log) == (status, "rank 0 of 3\n")


@pytest.mark.parametrize(
    ("statuses", "expected", "words"),
    [
        ({1: contract.EXIT_NOT_FINITE}, contract.EXIT_NOT_FINITE, "rank 1 wrote:\nrank 1 of 2"),
        ({1: -9}, contract.EXIT_RANK_LOST, "stub: rank 1 of 2 was ended by SIGKILL"),
        # The first only lost the second, which is the one to blame.
        ({0: contract.EXIT_RANK_LOST, 1: -11}, contract.EXIT_RANK_LOST, "rank 1 of 2 was ended"),
        ({0: contract.EXIT_RANK_LOST, 1: 1}, 1, "rank 1 wrote:"),
        ({0: contract.EXIT_RANK_LOST}, contract.EXIT_RANK_LOST, "rank 0 of 2 lost the others"),
        ({0: contract.EXIT_BAD_INPUT}, contract.EXIT_BAD_INPUT, "rank 0 of 2"),
    ],
)
def test_one_that_fails_ends_all_and_says_why(
    statuses: dict[int, int], expected: int, words: str, tmp_path: Path
) -> None:
    started = time.monotonic()
    found, log = launched(tmp_path, statuses, 2)
    assert (found, words in log) == (expected, True), log
    assert time.monotonic() - started < 30.0
