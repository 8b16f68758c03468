"""What must be written down whole, where a disk gets full in the middle of it."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.errors import TargetUnavailable
from targets import linux
from targets.local_process import LocalProcessTarget
from tests.target_runs import (
    attempt,
    end_supervisor,
    local_target,
    run,
    supervisor_pid,
    wait_until,
)

ROOT = Path(__file__).resolve().parents[2]
NO_LIMIT = resource.RLIM_INFINITY
FACT = """
import os, resource, sys
from targets import layout
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
layout.append_fact(file, {"boot": "b"})
room = os.fstat(file).st_size + 20
resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
try:
    layout.append_fact(file, {"exit": {"cause": "exited", "code": 0}})
    print("taken")
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
layout.append_fact(file, {"exit": {"cause": "killed"}})
print(layout.read_record(os.path.dirname(sys.argv[1])))
"""
REQUEST = """
import os, resource, sys
from targets.egress.record import Recorder, described, now
recorder = Recorder(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
try:
    recorder.begin(1, described(now(), "CONNECT", "example.org", 443))
    print("goes out")
except OSError as error:
    print(error.strerror)
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[LocalProcessTarget]:
    made = local_target(tmp_path)
    yield made
    made.close()
    end_supervisor(tmp_path / "attempts-root")


def said_by(code: str, path: Path) -> list[str]:
    argv = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_fact_of_which_only_the_beginning_was_taken_is_not_recorded(tmp_path: Path) -> None:
    said, record = said_by(FACT, tmp_path / "record.jsonl")
    assert said == os.strerror(28)
    assert record == "{'boot': 'b', 'exit': {'cause': 'killed'}}"


def test_no_request_goes_out_of_which_only_the_beginning_was_written_down(
    tmp_path: Path,
) -> None:
    assert said_by(REQUEST, tmp_path) == [os.strerror(28)]


def test_a_supervisor_that_cannot_record_starts_keeps_nothing_for_them(
    target: LocalProcessTarget,
) -> None:
    pid = supervisor_pid(target)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, NO_LIMIT))
    for _ in range(3):
        with pytest.raises(TargetUnavailable):
            target.launch(attempt("exit 0"))
    wait_until(lambda: linux.children_of(pid) == [], "its subreapers leave")
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))
    assert run(target, "exit 3").exit.code == 3
