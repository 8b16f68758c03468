"""Machines as child services of this machine: each its own process, port, directory and key.

They stand for what a cloud would rent out, and have the same life: creating, ready, deleting. A
child outlives its parent; a parent that comes back finds it again by its process id and start.
"""

import logging
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from pydantic import JsonValue

from examples.job_server import root_lock
from examples.job_server.state import MachineRow, State
from ledger.errors import Conflict, InvalidInput, NotFound
from targets import layout
from targets.http_job import signing as http_signing
from targets.http_job.documents import MachineAsked, MachineDoc

log = logging.getLogger("job_server")

CREATE_S = 60.0
EXPIRE_EVERY_S = 1.0
END_S = 20.0
REMOVE_TRIES = 50
KINDS = ("bubblewrap", "docker", "local")


class Machines:
    """Thread-safe. One thread per machine that comes or goes, and one that expires them."""

    def __init__(
        self, root: Path, state: State, key: bytes, *, limit: int, wipe: Callable[[Path], None]
    ) -> None:
        self._root = root / "machines"
        self._root.mkdir(exist_ok=True)
        self._state = state
        self._key = key
        self._limit = limit
        self._wipe = wipe
        self._lock = threading.RLock()
        self._closed = threading.Event()
        for row in state.machines():
            if row.state == "creating":
                self._begin(row.name)
            elif row.state == "deleting":
                self._begin_end(row)
        self._expirer = threading.Thread(target=self._expire, name="expire", daemon=True)
        self._expirer.start()

    def create(self, asked: MachineAsked) -> MachineDoc:
        """Begin to make it, or say how far it is. Raises Conflict for another owner's name, and
        InvalidInput for what cannot be made."""
        check_machine(asked.machine)
        with self._lock:
            row = self._state.machine(asked.name)
            if row is None:
                if len(self._state.machines()) >= self._limit:
                    raise Conflict(f"there are {self._limit} machines already: delete one")
                self._state.change(
                    "INSERT INTO machines (name, asked, state, heard_at) VALUES (?, ?, ?, ?)",
                    *(asked.name, asked.model_dump_json(), "creating", time.time()),
                )
                self._begin(asked.name)
            elif (known := _asked(row)).owner != asked.owner or known.study != asked.study:
                raise Conflict(f"machine {asked.name} belongs to another study")
            else:
                self._state.change(
                    "UPDATE machines SET heard_at = ? WHERE name = ?", time.time(), asked.name
                )
        return self.get(asked.name)

    def get(self, name: str) -> MachineDoc:
        row = self._state.machine(name)
        if row is None:
            raise NotFound(f"there is no machine {name}")
        return self._doc(row)

    def list_owned(self, owner: str) -> list[MachineDoc]:
        rows = self._state.machines()
        return [self._doc(row) for row in rows if not owner or _asked(row).owner == owner]

    def delete(self, name: str, if_idle_s: float) -> MachineDoc:
        """Begin to end it and all that runs on it. Raises Conflict when it was in use since."""
        with self._lock:
            doc = self.get(name)
            if doc.state in ("creating", "ready") and doc.idle_s < if_idle_s:
                raise Conflict(f"machine {name} has been idle for {doc.idle_s:.0f} s only")
            if doc.state == "creating":
                raise Conflict(f"machine {name} is still being created")
            self._state.change("UPDATE machines SET state = 'deleting' WHERE name = ?", name)
            row = self._state.machine(name)
            if row is not None and doc.state != "deleting":
                self._begin_end(row)
        return self.get(name)

    def close(self) -> None:
        """Machines go on running."""
        self._closed.set()
        self._expirer.join(5)

    # --- coming ------------------------------------------------------------------------------

    def _begin(self, name: str) -> None:
        threading.Thread(target=self._make, args=(name,), name=f"make-{name}", daemon=True).start()

    def _make(self, name: str) -> None:
        row = self._state.machine(name)
        if row is None:
            return
        try:
            pid, url = self._start(name, _asked(row).machine)
        except (OSError, RuntimeError) as error:
            log.warning("machine %s: %s", name, error)
            self._state.change(
                "UPDATE machines SET state = 'failed', detail = ? WHERE name = ?",
                *(str(error)[:1000], name),
            )
            return
        self._state.change(
            "UPDATE machines SET state = 'ready', pid = ?, started = ?, url = ?, heard_at = ? "
            "WHERE name = ?",
            *(pid, layout.process_start(pid) or 0, url, time.time(), name),
        )

    def _start(self, name: str, machine: dict[str, JsonValue]) -> tuple[int, str]:
        """Pid and url. Raises OSError, RuntimeError."""
        root = self._root / name
        root.mkdir(mode=0o700, exist_ok=True)
        ready = root / f"ready-{secrets.token_hex(4)}"
        (root / "kind").write_text(str(machine.get("target", "bubblewrap")))
        argv = [sys.executable, "-m", "examples.job_server", "--root", str(root)]
        argv += ["--target", str(machine.get("target", "bubblewrap")), "--port", "0"]
        argv += ["--slots", str(machine.get("slots", 4)), "--ready-file", str(ready)]
        secret = http_signing.machine_key(self._key, name).decode()
        with (root / "service.log").open("ab") as output:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=Path(__file__).resolve().parents[2],
                env={**os.environ, "ARL_JOB_SECRET": secret},
            )
        until = time.monotonic() + CREATE_S
        while time.monotonic() < until:
            # One that an earlier parent started, and was killed before it knew.
            root_lock.end_others(root, child.pid)
            if child.poll() is not None:
                raise RuntimeError(f"its service ended with {child.returncode}")
            if ready.exists():
                url = ready.read_text()
                ready.unlink()
                return child.pid, url
            time.sleep(0.05)
        child.kill()
        raise RuntimeError(f"its service was not ready within {CREATE_S:g} s")

    # --- going -------------------------------------------------------------------------------

    def _begin_end(self, row: MachineRow) -> None:
        threading.Thread(
            target=self._end, args=(row,), name=f"end-{row.name}", daemon=True
        ).start()

    def _end(self, row: MachineRow) -> None:
        _end_process(row)
        root = self._root / row.name
        root_lock.end_others(root, None)
        self._wipe(root)
        for _ in range(REMOVE_TRIES):  # what ends just now may still write a line
            shutil.rmtree(root, ignore_errors=True)
            if not root.exists():
                break
            time.sleep(0.2)
        self._state.change("DELETE FROM machines WHERE name = ?", row.name)

    def _expire(self) -> None:
        """End those that nobody uses; say which have vanished."""
        while not self._closed.wait(EXPIRE_EVERY_S):
            for row in self._state.machines():
                if row.state != "ready":
                    continue
                asked, silent_s = _asked(row), time.time() - self._heard_at(row)
                if not _is_running(row):
                    self._state.change(
                        "UPDATE machines SET state = 'failed', detail = 'its service is gone' "
                        "WHERE name = ?",
                        row.name,
                    )
                elif self._idle_s(row) >= asked.idle_s or silent_s >= asked.lease_s:
                    log.info("machine %s has not been used: it is removed", row.name)
                    try:
                        self.delete(row.name, 0.0)
                    except (Conflict, NotFound):
                        continue

    def _doc(self, row: MachineRow) -> MachineDoc:
        asked = _asked(row)
        return MachineDoc.model_validate(
            {
                "name": row.name,
                "owner": asked.owner,
                "study": asked.study,
                "state": row.state,
                "url": row.url,
                "detail": row.detail,
                "idle_s": self._idle_s(row),
            }
        )

    def _idle_s(self, row: MachineRow) -> float:
        """Since it last had an attempt or a request about one."""
        root = self._root / row.name
        if _attempts_on(root):
            return 0.0
        return max(0.0, time.time() - max(_touched_at(root / "used"), row.heard_at))

    def _heard_at(self, row: MachineRow) -> float:
        return max(_touched_at(self._root / row.name / "heard"), row.heard_at)


def _asked(row: MachineRow) -> MachineAsked:
    return MachineAsked.model_validate_json(row.asked)


def check_machine(machine: Mapping[str, JsonValue]) -> None:
    """Raises InvalidInput for one that this service cannot make."""
    known = {"target", "slots"}
    strange = sorted(machine.keys() - known)
    if strange:
        raise InvalidInput(f"target.machine.{strange[0]}: this service knows target and slots")
    if machine.get("target", "bubblewrap") not in KINDS:
        raise InvalidInput(
            f"target.machine.target {machine['target']!r}: write {', '.join(KINDS)}"
        )
    slots = machine.get("slots", 4)
    if isinstance(slots, bool) or not isinstance(slots, int) or not 0 < slots <= 1024:
        raise InvalidInput(f"target.machine.slots {slots!r}: write a number from 1 to 1024")


def _attempts_on(root: Path) -> int:
    """How many attempts a machine has that were not released, by its own file."""
    try:
        with closing(sqlite3.connect(f"file:{root}/state.db?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM attempts").fetchone()[0])
    except sqlite3.OperationalError:  # there is no such file yet
        return 0


def _touched_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _is_running(row: MachineRow) -> bool:
    return row.pid > 0 and layout.process_start(row.pid) == row.started


def _end_process(row: MachineRow) -> None:
    """SIGTERM, then SIGKILL: what it ran is ended by wiping its directory."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + END_S
        while _is_running(row) and time.monotonic() < until:
            try:
                os.kill(row.pid, number)
            except ProcessLookupError:
                break
            time.sleep(0.1)
        _reap(row.pid)


def _reap(pid: int) -> None:
    """Of a child of this very process; one of an earlier parent belongs to init."""
    try:
        if pid > 0:
            os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
