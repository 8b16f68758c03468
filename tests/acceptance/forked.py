"""Runs a function in a forked child of this warm process: a fresh process without the cost of
starting an interpreter and importing everything again."""

import faulthandler
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 120.0


def fork(function: Callable[[], None], log: Path, *, watched: bool = True) -> int:
    """Start `function` in a child, its output appended to `log`; the child's pid.

    The child exits with 0, or 1 when the function raised. Call it with no ledger open and no
    thread running. A watched child says where it is when it takes too long.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = open(2, "w", closefd=False, buffering=1, encoding="utf-8")
        faulthandler.enable(file=2)
        faulthandler.register(signal.SIGUSR1, file=2)
        if watched:
            faulthandler.dump_traceback_later(PATIENCE_S - 5, file=2)
        function()
        code = 0
    except BaseException:  # noqa: BLE001 - a fork must never run the test runner's code
        traceback.print_exc()
        code = 1
    os._exit(code)


def join(pid: int, patience_s: float = PATIENCE_S) -> int:
    """Its exit code once it ended, negative for a signal. Raises TimeoutError and kills it."""
    until = time.monotonic() + patience_s
    pause_s = 0.001
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise TimeoutError(f"process {pid} did not end within {patience_s:g} s")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.02)


def run(function: Callable[[], None], log: Path, patience_s: float = PATIENCE_S) -> int:
    """Fork, wait, and give the exit code."""
    return join(fork(function, log), patience_s)
