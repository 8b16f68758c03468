"""The other systems of the no-op benchmark: each in its own environment, run as a subprocess."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ADAPTERS = Path(__file__).parent / "peers"


@dataclass(frozen=True)
class Peer:
    """A system in one mode, and how many trials of it one round affords."""

    label: str
    requirement: str
    """What pip installs for it; several are parted by spaces."""
    adapter: str
    mode: str | None = None
    serial: int = 0
    """Trials per round, one at a time; 0 leaves the measurement out."""
    parallel: tuple[int, int] = (0, 0)
    """(trials per round, how many at once)"""
    growth: tuple[int, int] = (0, 1)
    """(trials, how many at once) of the one long run"""
    environment: str | None = None
    """Where it is installed; None: below its own name."""

    @property
    def environment_name(self) -> str:
        return self.environment or self.requirement.partition("==")[0].partition("[")[0]


RUNS_NOTHING = "runs nothing"
"""Ends the label of a system that is measured without starting a process."""
RL = "autoresearch-rl==0.5.0"
RAY = "ray[tune]==2.60.0"
OPTUNA = "optuna==5.0.0"
PEERS = (
    Peer(
        "autoresearch-rl 0.5.0",
        RL,
        "run_autoresearch_rl",
        serial=15,
        parallel=(96, 16),
        growth=(1000, 16),
    ),
    Peer(
        "labloop 1.0.5, no sandbox", "labloop==1.0.5", "run_labloop", serial=40, growth=(1000, 1)
    ),
    Peer("Ray Tune 2.60.0", RAY, "run_ray_tune", "fresh", serial=6, parallel=(24, 8)),
    Peer(
        "Ray Tune 2.60.0, actors reused",
        RAY,
        "run_ray_tune",
        "reused",
        serial=60,
        parallel=(80, 8),
        growth=(1000, 1),
    ),
    Peer(
        "Optuna 5.0.0 SQLite + two processes",
        OPTUNA,
        "run_optuna",
        "sqlite",
        serial=60,
        parallel=(80, 8),
    ),
    Peer(
        "Optuna 5.0.0 journal + two processes",
        OPTUNA,
        "run_optuna",
        "journal",
        serial=60,
        parallel=(80, 8),
    ),
    Peer(
        "Optuna 5.0.0 SQLite, runs nothing",
        OPTUNA,
        "run_optuna",
        "sqlite-nothing",
        serial=60,
        growth=(2000, 1),
    ),
    Peer(
        "Optuna 5.0.0 journal, runs nothing",
        OPTUNA,
        "run_optuna",
        "journal-nothing",
        serial=60,
        growth=(5000, 1),
    ),
    Peer(
        "Optuna 5.0.0 SQLite TPE, runs nothing",
        OPTUNA,
        "run_optuna",
        "sqlite-tpe-nothing",
        serial=60,
        growth=(2000, 1),
    ),
)


def install(peer: Peer, environments: Path) -> Path:
    """The interpreter of the peer's environment, made on first use."""
    folder = environments / peer.environment_name
    python = folder / "bin" / "python"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != peer.requirement:
        print(f"installing {peer.requirement} in {folder}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-qq", *peer.requirement.split()], check=True
        )
        stamp.write_text(peer.requirement)
    return python


def run_peer(
    peer: Peer, environments: Path, work: Path, *, trials: int, parallel: int = 1
) -> list[float]:
    """Seconds from the start to each completion, ascending. Raises RuntimeError on failure."""
    argv = [str(install(peer, environments)), str(ADAPTERS / f"{peer.adapter}.py")]
    argv += ["--trials", str(trials), "--parallel", str(parallel), "--work", str(work)]
    argv += ["--mode", peer.mode] if peer.mode else []
    # Their configuration and caches stay out of the user's home.
    environment = {**os.environ, "HOME": str(work), "RAY_AUTH_MODE": "disabled"}
    work.mkdir(parents=True, exist_ok=True)
    with (work.parent / f"{work.name}.log").open("wb") as log:
        done = subprocess.run(
            argv, env=environment, stdout=subprocess.PIPE, stderr=log, check=False
        )
    try:
        completed: list[float] = json.loads(done.stdout)["completed_s"]
    except (ValueError, KeyError) as error:
        raise RuntimeError(f"{peer.label}: exit {done.returncode}, see {log.name}") from error
    if len(completed) < trials:
        raise RuntimeError(f"{peer.label}: {len(completed)} of {trials} trials, see {log.name}")
    return completed
