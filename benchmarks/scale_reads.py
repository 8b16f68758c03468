"""Lists and plots of an aged study: asked for the first time ever, after a start, and again."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.scale_study import Aged
from benchmarks.service_reads import STUDY, TRIALS
from benchmarks.service_server import Server

REPEATS = 5
QUIET_S, QUIET_MS = 5.0, 20.0
"""A server that works so little for so long has nothing left to read."""
_PAGE = f"{TRIALS}?limit=50&order=desc"
ASKED = {
    "first page": f"{TRIALS}?limit=50",
    "first page and count": f"{TRIALS}?limit=50&count=true",
    "by value": f"{_PAGE}&sort=value",
    "by a parameter": f"{_PAGE}&sort=params.p0",
    "by a choice": f"{_PAGE}&sort=params.optimizer",
    "by a score": f"{_PAGE}&sort=scores.cost",
    "by a metric": f"{_PAGE}&sort=metrics.m3",
    "where params.p0<0.01": f"{_PAGE}&where=params.p0<0.01",
    "where metrics.m0>1.7": f"{_PAGE}&where=metrics.m0>1.7",
    "one study": STUDY,
    **{
        f"plot {name}": f"{STUDY}/plots/{name}"
        for name in (
            "history",
            "importances",
            "parallel",
            "contour",
            "edf",
            "pareto",
            "intermediate",
            "timeline",
        )
    },
    "proposer": f"{STUDY}/proposer",
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Of one request: milliseconds on the clock and of the server's processor, and bytes."""

    wall_ms: float
    cpu_ms: float
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    name: str
    ever: Answer
    """The first time that anybody asks, once the server has kept what there is."""
    started: Answer
    """The first time after a start of the server."""
    then: Answer
    """The median of the next."""


def read_study(aged: Aged, curve: str) -> dict[str, Any]:
    """Everything in ASKED, and the values of the trial `curve`."""
    asked = {**ASKED, "values of one trial": f"/api/v1/trials/{curve}/values"}
    server = Server(aged.home, "--no-worker", **aged.environment)
    try:
        server.start()
        kept = _kept(server)
        ever = [_answers(server, asked)]
        server.stop()
        start_s = server.start(f"{TRIALS}?limit=50")
        again = [_answers(server, asked) for _ in range(REPEATS + 1)]
        memory_mb = server.memory_mb()
    finally:
        server.stop()
    found = [
        Asked(
            name=name,
            ever=ever[0][name],
            started=again[0][name],
            then=_median([one[name] for one in again[1:]]),
        )
        for name in asked
    ]
    return {
        "kept_cpu_s": kept,
        "start_to_first_page_s": start_s,
        "memory_mb": memory_mb,
        "columns_bytes": sum(p.stat().st_size for p in Path(aged.home, "columns").glob("*")),
        "reads": [asdict(one) for one in found],
    }


def _kept(server: Server) -> float:
    """Wait until it has read what lists and plots need: seconds of its processor."""
    before = _cpu_ms(server.pid)
    while True:
        began = _cpu_ms(server.pid)
        time.sleep(QUIET_S)
        if _cpu_ms(server.pid) - began < QUIET_MS:
            return (began - before) / 1e3


def _answers(server: Server, asked: dict[str, str]) -> dict[str, Answer]:
    found = {}
    with httpx.Client(base_url=server.url, trust_env=False, timeout=300) as client:
        client.get("/readyz")
        for name, url in asked.items():
            cpu_ms, began = _cpu_ms(server.pid), time.perf_counter()
            answer = client.get(url).raise_for_status()
            wall_ms = (time.perf_counter() - began) * 1e3
            found[name] = Answer(
                wall_ms=wall_ms,
                cpu_ms=_cpu_ms(server.pid) - cpu_ms,
                bytes=len(answer.content),
            )
    return found


def _median(answers: Sequence[Answer]) -> Answer:
    return Answer(
        wall_ms=statistics.median(one.wall_ms for one in answers),
        cpu_ms=statistics.median(one.cpu_ms for one in answers),
        bytes=answers[-1].bytes,
    )


def _cpu_ms(pid: int) -> float:
    """What its threads ran, to the nanosecond."""
    spent = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent += int((task / "schedstat").read_text().split()[0])
    return spent / 1e6
