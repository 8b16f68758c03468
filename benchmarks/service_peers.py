"""The other systems of the service benchmark: filled with the same trials, asked over HTTP.

Each server runs in a process group of its own with its address space limited, and each request
with a time limit. What fails is a figure, too: it says how.
"""

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service_server import free_port, memory_mb

ADAPTERS = Path(__file__).parent / "peers"
MEMORY_BYTES = 8 << 30
TIME_S = 120.0
START_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request to a peer, and the read of ours that it is held against."""

    name: str
    like: str
    url: str
    body: Any = None


@dataclass(frozen=True, kw_only=True)
class Peer:
    label: str
    folder: str
    requirements: Sequence[str]
    fill: str
    serve: Sequence[str]
    """{database} and {port} are filled in; the first word is a program of its environment."""
    reads: Sequence[Asked]


def _search(name: str, like: str, **changes: Any) -> Asked:
    body = {"experiment_ids": ["1"], "max_results": 50, **changes}
    return Asked(name=name, like=like, url="/api/2.0/mlflow/runs/search", body=body)


def _plot(name: str, like: str) -> Asked:
    return Asked(name=f"plot {name}", like=f"plot {like}", url=f"/api/studies/1/plot/{name}")


OPTUNA = Peer(
    label="optuna-dashboard 0.21.0",
    folder="optuna-dashboard",
    requirements=("optuna-dashboard==0.21.0", "plotly", "scikit-learn"),
    fill="fill_optuna",
    serve=("optuna-dashboard", "sqlite:///{database}", "--port", "{port}"),
    reads=(
        Asked(name="studies", like="studies", url="/api/studies"),
        Asked(name="study with its trials", like="trials, first page", url="/api/studies/1"),
        Asked(name="poll, nothing new", like="poll, nothing new", url="/api/studies/1?after={n}"),
        _plot("edf", "edf"),
        _plot("slice", "slice"),
        _plot("parallel_coordinate", "parallel"),
        _plot("timeline", "timeline"),
        Asked(
            name="importances",
            like="plot importances",
            url="/api/studies/1/param_importances",
        ),
        _plot("contour", "contour"),
    ),
)
MLFLOW = Peer(
    label="MLflow 3.17.0",
    folder="mlflow",
    requirements=("mlflow==3.17.0",),
    fill="fill_mlflow",
    serve=(
        "mlflow",
        "server",
        "--backend-store-uri",
        "sqlite:///{database}",
        "--port",
        "{port}",
        "--workers",
        "1",
    ),
    reads=(
        _search("runs, first page", "trials, first page"),
        _search("runs by score", "trials by value", order_by=["metrics.score DESC"]),
        _search("runs by a metric", "trials by metrics.m3", order_by=["metrics.m3 DESC"]),
        _search("runs by a parameter", "trials by params.p0", order_by=["params.p0 DESC"]),
        _search("runs, metric > 1.7", "trials, metrics.m0>1.7", filter="metrics.m0 > 1.7"),
    ),
)
PEERS = (OPTUNA, MLFLOW)


def python_of(peer: Peer, environments: Path) -> Path:
    """The interpreter of the peer's environment, made on first use."""
    folder = environments / peer.folder
    python, stamp, wanted = (
        folder / "bin" / "python",
        folder / "filled-by",
        " ".join(peer.requirements),
    )
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {wanted} in {folder}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", *peer.requirements], check=True)
        stamp.write_text(wanted)
    return python


def measure_peer(
    peer: Peer, environments: Path, work: Path, ledger: Path, trials: int, *, repeat: int
) -> dict[str, Any]:
    """Each read once, and then `repeat` times more where the first took less than a second."""
    python = python_of(peer, environments)
    database = work / f"{peer.folder}.db"
    program = str(ADAPTERS / f"{peer.fill}.py")
    fill = [str(python), program, "--ledger", str(ledger), "--database", str(database)]
    subprocess.run(fill, check=True, env=_environment(work), stdout=subprocess.DEVNULL)
    found: list[dict[str, Any]] = []
    for asked in peer.reads:
        # One that fails may take the server down, so that each finds one of its own.
        with _serving(peer, python, database, work) as server:
            found.append({**_read(server, asked, trials, repeat), "memory_mb": server.peak_mb()})
        print(f"  {peer.label:<28} {told(found[-1])}", flush=True)
    return {"reads": found}


def told(read: dict[str, Any]) -> str:
    if "failed" in read:
        return f"{read['name']:<28} FAILED after {read['after_s']:.0f} s: {read['failed']}"
    return (
        f"{read['name']:<28} first {read['first_ms']:.0f} ms, then {read['wall_ms']:.0f} ms, "
        f"{read['bytes'] / 1000:.0f} kB, {read['memory_mb']:.0f} MB"
    )


class _Server:
    """A peer's server and all that it started."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    def peak_mb(self) -> float:
        """Of the largest process of its group."""
        found = [0.0]
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.getpgid(int(entry.name)) == self.process.pid:
                    found.append(memory_mb(int(entry.name), "VmHWM"))
            except (OSError, IndexError):
                continue
        return max(found)


@contextmanager
def _serving(peer: Peer, python: Path, database: Path, work: Path) -> Iterator[_Server]:
    port = free_port()
    program, *rest = [w.format(database=database, port=port) for w in peer.serve]
    with (work / f"{peer.folder}.log").open("ab") as log:
        process = subprocess.Popen(
            [python.parent / program, *rest],
            env=_environment(work),
            stdout=log,
            stderr=log,
            cwd=work,
            process_group=0,
            preexec_fn=_limited,
        )
    server = _Server(process, port)
    try:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and process.poll() is None:
            try:
                httpx.get(server.url, timeout=30, trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield server
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _environment(work: Path) -> dict[str, str]:
    """Their configuration and caches stay out of the user's home; nothing is reported home."""
    return {
        **os.environ,
        "HOME": str(work),
        "DO_NOT_TRACK": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }


def _read(server: _Server, asked: Asked, trials: int, repeat: int) -> dict[str, Any]:
    took_ms: list[float] = []
    size, began = 0, time.monotonic()
    url = f"{server.url}{asked.url.format(n=trials)}"
    while len(took_ms) <= (repeat if not took_ms or took_ms[0] < 1000 else min(repeat, 2)):
        try:
            with httpx.Client(trust_env=False, timeout=TIME_S) as client:
                if "after=" in url and not took_ms:  # who polls has seen the study before
                    client.get(url.partition("?")[0])
                begin = time.perf_counter()
                answer = (
                    client.get(url)
                    if asked.body is None
                    else client.post(url, content=json.dumps(asked.body), headers=_JSON)
                )
            answer.raise_for_status()
        except httpx.HTTPError as error:
            why = f"{type(error).__name__} {error}".partition("\n")[0]
            passed = time.monotonic() - began
            return {"name": asked.name, "like": asked.like, "failed": why, "after_s": passed}
        took_ms.append((time.perf_counter() - begin) * 1e3)
        size = len(answer.content)
    return {
        "name": asked.name,
        "like": asked.like,
        "first_ms": took_ms[0],
        "wall_ms": statistics.median(took_ms[1:]),
        "bytes": size,
    }


_JSON = {"Content-Type": "application/json"}
