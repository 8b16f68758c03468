"""`arl worker` processes of a benchmark, and what the ledger says of their work."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from sqlalchemy import select

from controller.wiring import Service
from ledger import reads
from ledger.entry_pages import page_of_entries
from ledger.rows import TRIALS
from ledger.states import STUDY_TERMINAL

PATIENCE_S = 600.0


class Workers:
    """So many, ended when the block is left."""

    def __init__(self, count: int, environment: Mapping[str, str], home: Path) -> None:
        self._environment = {**os.environ, **environment}
        self._log = home / "workers.log"
        self._count = count
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Workers":
        argv = [sys.executable, "-m", "controller.cli", "worker"]
        with self._log.open("ab") as log:
            for _ in range(self._count):
                started = subprocess.Popen(argv, env=self._environment, stdout=log, stderr=log)
                self.processes.append(started)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def cpu_s(self) -> float:
        """Processor time of all of them so far."""
        ticks = 0
        for process in self.processes:
            stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(stat[11]) + int(stat[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def wait_until_done(self, service: Service, studies: Sequence[str]) -> None:
        """Raises RuntimeError."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with service.ledger.read() as session:
                states = [reads.get_study(session, study).state for study in studies]
            if all(state in STUDY_TERMINAL for state in states):
                return
            time.sleep(0.2)
        raise RuntimeError(f"the studies are not done: {self._log.read_text()[-2000:]}")


def ended_at(service: Service, studies: Sequence[str]) -> list[float]:
    """When each search trial ended well."""
    query = select(TRIALS.c.ended_at).where(
        TRIALS.c.study_id.in_(studies), TRIALS.c.kind == "search", TRIALS.c.state == "complete"
    )
    with service.ledger.read() as session:
        return list(session.connection.execute(query).scalars())


def claims_after(service: Service, studies: Sequence[str], after: float) -> Counter[str]:
    """How many studies each worker drove last."""
    owners: Counter[str] = Counter()
    with service.ledger.read() as session:
        for study in studies:
            claims = page_of_entries(session, study, kinds=("worker_claimed",))
            owners[str(claims[-1].payload["owner"])] += claims[-1].at >= after
    return owners


def kill_first(service: Service, running: Workers, study: str, signal_name: str) -> float:
    """End or stop whichever worker drives the study; seconds until another one does."""
    owner = _owner(service, study, "")
    time.sleep(1.0)
    pid = int(owner.rsplit("/", 2)[1])
    began = time.monotonic()
    os.kill(pid, signal.Signals[signal_name])
    for process in running.processes:
        if process.pid == pid and signal_name == "SIGKILL":
            process.wait()
    _owner(service, study, owner)
    return time.monotonic() - began


def _owner(service: Service, study: str, but: str) -> str:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with service.ledger.read() as session:
            found = reads.get_study(session, study).lease_owner
        if found not in (None, but):
            return str(found)
        time.sleep(0.02)
    raise RuntimeError(f"nobody takes study {study} over")
