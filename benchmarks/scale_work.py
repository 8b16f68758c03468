"""A worker on an aged study: what a start takes, and what a trial costs then; and what it takes to
record a thousand values in a ledger of that size."""

import itertools
import os
import random
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from benchmarks.noop_arl import ARL
from benchmarks.scale_study import Aged
from benchmarks.service_server import memory_mb
from ledger.database import ledger_url, open_ledger
from tests.ledger_builders import Driven, claim, submit

PATIENCE_S = 1800.0
TRIALS = 100
METRICS, STEPS = 20, 50
RECORDED = 20


def resume(aged: Aged) -> dict[str, Any]:
    """`arl resume` until some trials ended, and killed: seconds, processor seconds and memory
    until the first of its trials, and the cost of one."""
    engine = create_engine(ledger_url(aged.url))
    began = time.monotonic()
    with engine.connect() as connection:
        last, ended = connection.execute(
            text("SELECT max(number), max(finish_seq) FROM trials")
        ).one()
    with _resumed(aged) as process:
        _until(engine, process, "SELECT max(number) FROM trials", last + 1)
        first_s, first_mb = time.monotonic() - began, memory_mb(process.pid, "VmHWM")
        first_cpu_s = _cpu_s(process.pid)
        _until(engine, process, "SELECT max(finish_seq) FROM trials", ended + TRIALS)
        cost_cpu_ms = (_cpu_s(process.pid) - first_cpu_s) / TRIALS * 1e3
        peak_mb = memory_mb(process.pid, "VmHWM")
    with engine.connect() as connection:
        query = text("SELECT ended_at FROM trials WHERE finish_seq > :seq ORDER BY finish_seq")
        moments = [row[0] for row in connection.execute(query, {"seq": ended})]
    engine.dispose()
    gaps = [b - a for a, b in itertools.pairwise(moments)]
    return {
        "first_action_s": first_s,
        "first_action_cpu_s": first_cpu_s,
        "first_action_mb": first_mb,
        "trial_ms": statistics.median(gaps) * 1e3,
        "trial_cpu_ms": cost_cpu_ms,
        "peak_mb": peak_mb,
    }


@contextmanager
def _resumed(aged: Aged) -> Iterator["subprocess.Popen[bytes]"]:
    with (aged.home.parent / "resume.log").open("wb") as log:
        process = subprocess.Popen(
            [str(ARL), "resume", aged.study_id, "--json"],
            env={**os.environ, **aged.environment},
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _until(engine: Any, process: "subprocess.Popen[bytes]", query: str, least: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"arl resume ended with exit code {process.returncode}")
        with engine.connect() as connection:
            if (connection.execute(text(query)).scalar() or 0) >= least:
                return
        time.sleep(0.01)
    raise RuntimeError(f"after {PATIENCE_S:.0f} s still not {least}: {query}")


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def record_values(aged: Aged) -> dict[str, float]:
    """A thousand values of one running trial in one durable commit, and then of the next."""
    ledger = open_ledger(aged.url, create=False)
    try:
        name = f"probe{time.time_ns()}"
        submit(ledger, name)
        study = Driven(ledger, name, claim(ledger, name))
        study.run_study()
        wall_ms, cpu_ms, rng = [], [], random.Random(1)
        for number in range(RECORDED):
            study.record(study.proposed(number), study.launching(number))
            study.record(study.started(number))
            said = [
                (step, f"train/metric-{m}", rng.gauss(0, 1))
                for step in range(STEPS)
                for m in range(METRICS)
            ]
            began, cpu = time.perf_counter(), time.thread_time()
            study.record(study.values(number, 0, said))
            wall_ms.append((time.perf_counter() - began) * 1e3)
            cpu_ms.append((time.thread_time() - cpu) * 1e3)
    finally:
        ledger.close()
    return {"wall_ms": statistics.median(wall_ms), "cpu_ms": statistics.median(cpu_ms)}
