"""A benchmark's worker processes end with the process that made them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.target_runs import is_alive, wait_until

ROOT = Path(__file__).resolve().parents[2]
PARENT = """
import sys
from concurrent.futures import wait
from benchmarks.worker_pools import worker_pool
from tests.pool_work import stay

if __name__ == "__main__":
    with worker_pool(2) as pool:
        wait([pool.submit(stay, sys.argv[1]) for _ in range(6)])
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_at_once_with_a_parent_that_is_ended(
    tmp_path: Path, end: signal.Signals
) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(list(tmp_path.glob("*.pid"))) == 2, "two workers", 60)
        workers = [int(path.stem) for path in tmp_path.glob("*.pid")]
        process.send_signal(end)
        assert process.wait(timeout=20) != 0
        wait_until(lambda: not any(map(is_alive, workers)), "the workers' end")
    finally:
        process.kill()
        process.wait()
        for path in tmp_path.glob("*.pid"):
            if is_alive(int(path.stem)):
                os.kill(int(path.stem), signal.SIGKILL)
    assert len(list(tmp_path.glob("*.pid"))) == 2
