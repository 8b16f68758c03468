"""One service per directory: its process holds a lock on a file there, which has its number."""

import fcntl
import os
import signal
import time
from pathlib import Path

from ledger.errors import Conflict

PATIENCE_S = 20.0


class RootTaken(Conflict):
    """Another service uses the directory."""


def hold(root: Path) -> None:
    """Until this process ends. Waits a while for one that is ending. Raises RootTaken."""
    until = time.monotonic() + PATIENCE_S
    descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while not _is_free(descriptor):
        if time.monotonic() > until:
            os.close(descriptor)
            raise RootTaken(f"--root {root}: another service uses it: end that one first")
        time.sleep(0.1)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)


def end_others(root: Path, mine: int | None) -> None:
    """Kill the service that holds the directory, unless it is `mine`."""
    try:
        descriptor = os.open(root / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if _is_free(descriptor):
            return
        text = os.pread(descriptor, 32, 0).decode("ascii", "replace")
        if text.isdecimal() and int(text) != mine:
            os.kill(int(text), signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended just now
    finally:
        os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
