"""How a keeper comes to be the only one of its root."""

import fcntl
import os
import resource
import signal
import socket
import sys
import time
from typing import Final

from targets import layout
from targets.docker_container.keeper import Keeper
from targets.supervisor_start import OTHER, READY, _listen

_LOCK_RETRY_S: Final = 0.02
_OPEN_FILES: Final = 65536


def main(root: str, ready: int, code: str, address: str) -> None:
    """Detach from whoever started this, then serve `root` with the engine at `address`; READY or
    OTHER goes to `ready`."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    os.umask(0o022)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    files = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], _OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    lock = os.open(f"{root}/{layout.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not _take_lock(root, lock):
        os.write(ready, OTHER)
        return
    keeper = Keeper(root, _listen(root), code, address)
    keeper.begin()
    os.write(ready, READY)
    os.close(ready)
    keeper.run()
    if _is_still_ours(root, lock):
        os.unlink(f"{root}/{layout.SOCKET}")
    sys.stderr.flush()
    os._exit(0)  # its threads hold nothing that must be let go of


def _take_lock(root: str, lock: int) -> bool:
    """Wait until no earlier keeper lives; False when one is alive and listening."""
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if _is_answering(root):
                return False
        time.sleep(_LOCK_RETRY_S)


def _is_answering(root: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe, layout.short_path(root) as path:
        return probe.connect_ex(f"{path}/{layout.SOCKET}") == 0


def _is_still_ours(root: str, lock: int) -> bool:
    """False when the root was deleted meanwhile, and perhaps made again for another one."""
    try:
        return os.path.samestat(os.stat(f"{root}/{layout.LOCK}"), os.fstat(lock))
    except FileNotFoundError:
        return False
