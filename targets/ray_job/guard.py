"""A small process that outlives an attempt's actor: if that dies, it ends the program."""

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from targets import layout

_END_PATIENCE_S: Final = 60.0
_SWEEP_AGE_S: Final = 300.0
"""Of an attempt whose actor is dead: its guard had its time."""
_PACKAGES: Final = str(Path(__file__).resolve().parents[2])
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from targets.ray_job.guard import main; "
    "main(sys.argv[2:])"
)


def start_guard(home: str, name: str, sandbox: str, storage: str) -> None:
    """Start the guard of an attempt that this process is about to run."""
    os.makedirs(f"{home}/guards", mode=0o700, exist_ok=True)
    pid, started = str(os.getpid()), str(layout.process_start(os.getpid()))
    Path(home, "guards", name).write_text(f"{sandbox} {pid} {started}", encoding="ascii")
    subprocess.run(
        [
            *(sys.executable, "-I", "-c", _CODE),
            *(_PACKAGES, pid, started, home, name, storage),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        check=True,
    )


def main(arguments: Sequence[str]) -> None:
    """Arguments: the actor's pid and when it started, the node's home, the attempt's name, the
    storage. Returns at once; the rest is done by a process of its own that nobody waits for."""
    actor, started, home, name, storage = arguments
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        _wait_for_death(int(actor), started)
        if os.path.exists(f"{home}/guards/{name}"):
            _clean_up(home, name, storage)
    finally:
        os._exit(0)


def _wait_for_death(pid: int, started: str) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    if str(layout.process_start(pid)) != started:
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll()


def sweep_node(home: str, storage: str) -> None:
    """Delete what attempts left whose actor died together with its guard, as when the machine
    lost power."""
    for marker in Path(home, "guards").glob("*"):
        try:
            _, pid, started = marker.read_text(encoding="ascii").split()
            age_s = time.time() - marker.stat().st_mtime
        except (OSError, ValueError):
            continue
        if age_s > _SWEEP_AGE_S and str(layout.process_start(pid)) != started:
            _clean_up(home, marker.name, storage)


def _clean_up(home: str, name: str, storage: str) -> None:
    """End the attempt and delete it. What cannot be done now is tried for a while."""
    from ledger.errors import ArlError
    from targets.ray_job.place import NodeCache, clear_attempt, node_target
    from targets.ray_job.storage import open_store

    with open(f"{home}/guards/{name}", encoding="ascii") as file:
        sandbox = file.read().split()[0]
    target = node_target(sandbox, home, NodeCache(home, open_store(storage)), "guard")
    until = time.monotonic() + _END_PATIENCE_S
    while time.monotonic() < until:
        try:
            target.kill(name)
            target.wait({name}, 1.0)
            if target.observe(name, cursor="").exit is not None:
                clear_attempt(home, sandbox, name, target)
                return
        except (ArlError, OSError):
            time.sleep(0.2)
