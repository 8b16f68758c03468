"""`arl serve` as an operator meets it: its worker, its signals, and what it refuses to do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.serve_runs import Served, served


def test_a_worker_that_dies_is_started_again_and_leaves_with_its_server(tmp_path: Path) -> None:
    with served(tmp_path / ".arl") as server:
        (first,) = _one_worker(server)
        os.kill(first, signal.SIGKILL)
        (second,) = _one_worker(server, other_than=first)
        assert server.stop() == 0
        assert not Path(f"/proc/{second}").exists()
        assert "worker ended with status -9" in server.log()


def _one_worker(server: Served, *, other_than: int = 0) -> list[int]:
    for _ in range(300):
        found = [pid for pid in server.workers() if pid != other_than]
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(server.log())


def test_without_a_worker_it_only_answers(tmp_path: Path) -> None:
    with served(tmp_path / ".arl", "--no-worker") as server:
        assert server.workers() == []
        assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}


def test_it_does_not_listen_for_everybody_without_a_token(tmp_path: Path) -> None:
    environment = {**os.environ, "ARL_HOME": str(tmp_path / ".arl")}
    refused = subprocess.run(
        [sys.executable, "-m", "controller.cli", "serve", "--host", "0.0.0.0"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2
    assert "arl token create" in refused.stderr
    assert "Traceback" not in refused.stderr
