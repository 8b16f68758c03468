"""What a dashboard reads of a large study: time in the server, time in all, and bytes."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from benchmarks.service_server import Server

STUDY = "/api/v1/studies/bulk"
TRIALS = f"{STUDY}/trials"
PLOTS = (
    "history",
    "importances",
    "parallel",
    "slice",
    "contour",
    "edf",
    "pareto",
    "intermediate",
    "timeline",
)


@dataclass(frozen=True, kw_only=True)
class Read:
    """One request that is measured, and the goal of its time in the server."""

    name: str
    url: str
    goal_ms: float = 50.0


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Milliseconds and bytes: the first answer of this process, and the median of the next."""

    name: str
    first_ms: float
    server_ms: float
    wall_ms: float
    bytes: int
    goal_ms: float

    @property
    def is_met(self) -> bool:
        return max(self.first_ms, self.server_ms) <= self.goal_ms


def reads_of(client: httpx.Client, trials: int) -> list[Read]:
    """Every list and plot, in the order in which somebody would open them."""
    page = f"{TRIALS}?limit=50"

    def second(url: str) -> str:
        cursor = client.get(url).raise_for_status().json()["next_cursor"]
        return f"{url}&cursor={cursor}"

    found = [
        Read(name="studies", url="/api/v1/studies"),
        Read(name="one study", url=STUDY),
        Read(name="trials, first page", url=page),
        Read(name="trials, second page", url=second(page)),
        Read(name="trials, newest first", url=f"{page}&order=desc"),
        Read(name="trials, first page and count", url=f"{page}&count=true"),
    ]
    for sort in ("value", "wall_s", "params.p0", "params.optimizer", "scores.cost", "metrics.m3"):
        url = f"{page}&order=desc&sort={sort}"
        found.append(Read(name=f"trials by {sort}", url=url))
        found.append(Read(name=f"trials by {sort}, second page", url=second(url)))
    wheres = {
        "outcome=kept": "outcome=kept",
        "value>0.9": "where=value>0.9",
        "params.p0<0.01": "where=params.p0<0.01",
        "metrics.m0>1.7": "where=metrics.m0>1.7",
        "optimizer=adam by value": "where=params.optimizer=adam&sort=value&order=desc",
    }
    found += [Read(name=f"trials, {name}", url=f"{page}&{q}") for name, q in wheres.items()]
    head = client.get(STUDY + "/events?limit=1").raise_for_status().json()["head_seq"]
    news = f"{STUDY}/events?since="
    found += [
        Read(name="poll, nothing new", url=f"{news}{head}", goal_ms=20.0),
        Read(name="poll, a hundred events", url=f"{news}{head - 100}", goal_ms=20.0),
        Read(name="one trial", url=f"{TRIALS}/{trials // 2}"),
    ]
    found += [Read(name=f"plot {n}", url=f"{STUDY}/plots/{n}", goal_ms=300.0) for n in PLOTS]
    found.append(Read(name="proposer", url=f"{STUDY}/proposer", goal_ms=300.0))
    return found


def measure(
    server: Server, reads: Callable[[httpx.Client], Sequence[Read]], *, repeat: int
) -> list[Taken]:
    """Each read once, and then `repeat` times round robin. The server must be a fresh one."""
    seen: dict[str, list[tuple[str, float, int]]] = {}
    with httpx.Client(base_url=server.url, trust_env=False, timeout=120) as client:
        asked = list(reads(client))
        server.stop()
        server.start()
        for _ in range(repeat + 1):
            for read in asked:
                began = time.perf_counter()
                answer = client.get(read.url).raise_for_status()
                wall_ms = (time.perf_counter() - began) * 1e3
                request = answer.headers["x-request-id"]
                seen.setdefault(read.name, []).append((request, wall_ms, len(answer.content)))
    time.sleep(0.2)
    spent = server.server_ms()
    found = []
    for read in asked:
        first, *others = seen[read.name]
        found.append(
            Taken(
                name=read.name,
                first_ms=spent[first[0]],
                server_ms=statistics.median(spent[request] for request, _, _ in others),
                wall_ms=statistics.median(wall_ms for _, wall_ms, _ in others),
                bytes=others[-1][2],
                goal_ms=read.goal_ms,
            )
        )
    return found


def documents(taken: Sequence[Taken]) -> list[dict[str, Any]]:
    return [{**asdict(one), "is_met": one.is_met} for one in taken]
