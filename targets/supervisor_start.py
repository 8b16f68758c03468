"""How a supervisor comes to be the only one of its root. Standard library only."""

import fcntl
import gc
import os
import resource
import signal
import socket
import time
from typing import Final

from targets import layout, linux, recovery, subreaper
from targets.subreapers import OPEN_FILES
from targets.supervisor import Supervisor

READY: Final = b"ready"
OTHER: Final = b"other"
"""Another supervisor of the same root is alive."""

_LOW_FILES: Final = 16
"""Descriptors below this number have a fixed meaning in a subreaper, /dev/null unless set."""
_LOCK_PATIENCE_S: Final = 3.0
_LOCK_RETRY_S: Final = 0.02


def main(root: str, ready: int, code: str) -> None:
    """Detach from whoever started this, then serve `root`; READY or OTHER goes to `ready`.

    `code` is the digest of this source, told to clients.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_BLOCK, subreaper.BLOCKED_SIGNALS)
    linux.adopt_orphans()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    ready = _free_low_numbers(ready)
    lock = os.open(f"{root}/{layout.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.dup2(lock, subreaper.LOCK_FD, inheritable=False)
    os.close(lock)
    if _take_lock(root):
        _serve(root, ready, code)
    else:
        os.write(ready, OTHER)


def _free_low_numbers(ready: int) -> int:
    """Fill the low numbers with /dev/null, so that nothing opened later gets one; the new number
    of `ready`."""
    kept = fcntl.fcntl(ready, fcntl.F_DUPFD_CLOEXEC, _LOW_FILES)
    os.closerange(subreaper.LOCK_FD, _LOW_FILES)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in range(null + 1, _LOW_FILES):
        os.dup2(null, number, inheritable=False)
    return kept


def _take_lock(root: str) -> bool:
    """Wait until no earlier supervisor nor any of its subreapers lives, each of which holds the
    lock; False when one is alive and listening."""
    impatient_at = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(subreaper.LOCK_FD, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if _is_answering(root):
                return False
        if time.monotonic() > impatient_at:
            recovery.kill_stuck_subreapers(root)
        time.sleep(_LOCK_RETRY_S)


def _is_answering(root: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, layout.short_path(root) as path:
        return probe.connect_ex(f"{path}/{layout.SOCKET}") == 0


def _serve(root: str, ready: int, code: str) -> None:
    recovery.end_unfinished(root, layout.boot_id())
    supervisor = Supervisor(root, _listen(root), code)
    os.write(ready, READY)
    os.close(ready)
    gc.collect()
    gc.freeze()  # what is here now is shared with every fork and never garbage
    gc.disable()
    supervisor.run()
    if _is_still_ours(root):
        os.unlink(f"{root}/{layout.SOCKET}")


def _is_still_ours(root: str) -> bool:
    """False when the root was deleted meanwhile, and perhaps made again for another one."""
    try:
        return os.path.samestat(os.stat(f"{root}/{layout.LOCK}"), os.fstat(subreaper.LOCK_FD))
    except FileNotFoundError:
        return False


def _listen(root: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    with layout.short_path(root) as path:
        try:
            os.unlink(f"{path}/{layout.SOCKET}")
        except FileNotFoundError:
            pass  # the last one left in order
        listener.bind(f"{path}/{layout.SOCKET}")
    listener.listen(128)
    listener.settimeout(0)
    return listener
