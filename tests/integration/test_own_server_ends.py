"""What a trial's own rollout server started ends with it, however it ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inner_trials.own_server import GUARD
from tests.target_runs import is_alive, wait_until


def guarded(script: str) -> "subprocess.Popen[bytes]":
    """A server that is a shell script, guarded as a trial guards its own."""
    return subprocess.Popen(
        [sys.executable, "-c", GUARD, "/bin/sh", "-c", script],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )


def engine_in(file: Path) -> int:
    """The process that the server started, once it has said so."""
    wait_until(lambda: file.exists() and file.read_text().strip(), "its engine runs", 20.0)
    return int(file.read_text())


@pytest.mark.parametrize(
    ("end", "status"), [("exit 3", 3), ("kill -9 $$", -signal.SIGKILL), ("kill $$", -15)]
)
def test_an_engine_does_not_outlive_the_server_that_started_it(
    tmp_path: Path, end: str, status: int
) -> None:
    file = tmp_path / "engine"
    with guarded(f"sleep 60 & echo $! >{file}; {end}") as server:
        engine = engine_in(file)
        assert server.wait(20) == status
    wait_until(lambda: not is_alive(engine), "its engine is gone", 10.0)


def test_both_end_when_their_trainer_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "engine"
    server = guarded(f"sleep 60 & echo $! >{file}; wait")
    engine = engine_in(file)
    assert server.stdin is not None
    server.stdin.close()
    assert server.wait(20) == -signal.SIGKILL
    wait_until(lambda: not is_alive(engine), "its engine is gone", 10.0)
    assert is_alive(os.getpid())
