"""Bounded-asynchronous GRPO for real: TRL's trainer, the planner's arguments, vLLM on a CPU.

Slow, and only where vLLM is installed: `scripts/vllm_cpu.sh`.
"""

import json
import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inner_trials import contract
from inner_trials.plan import validate
from inner_trials.planning.configuration import (
    async_grpo_arguments,
    vllm_arguments,
    vllm_environment,
)
from inner_trials.planning.kinds import plan_of
from tests.integration import sft_runs
from tests.vllm_server import NEEDS_VLLM, VllmServer, interpreter, vllm_server

pytestmark = [*NEEDS_VLLM, pytest.mark.train, pytest.mark.timeout(1200)]

STALENESS = 2
STEPS = 40
PLAN = plan_of(
    "async",
    "grpo",
    {
        "rollout": "disaggregated",
        "placement": "bounded_async",
        "staleness_bound": STALENESS,
        "sync_payload": "adapter",
        "parameterization": "lora",
    },
    {},
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tuned: Path) -> Iterator[VllmServer]:
    validate(PLAN)
    words = vllm_arguments(PLAN, str(tuned))
    with vllm_server(
        tmp_path_factory.mktemp("vllm"),
        model=tuned,
        name=str(tuned),
        context=128,
        arguments=words[words.index("--dtype") :],
        environment=vllm_environment(PLAN),
    ) as opened:
        yield opened


class Run:
    def __init__(
        self, place: Path, task: Path, tuned: Path, server: VllmServer, *, steps: int
    ) -> None:
        self.history, self.output = place / "history.json", place / "model"
        self._log = place / "log"
        given = {
            "output_dir": str(place / "trainer"),
            "vllm_server_base_url": server.url.removesuffix("/v1"),
            "per_device_train_batch_size": 64,
            "max_completion_length": 8,
            "max_steps": steps,
            "learning_rate": 5e-4,
            "logging_steps": 1,
            **async_grpo_arguments(PLAN),
        }
        settings = {
            "model": str(tuned),
            "data": str(task / "data" / "train.jsonl"),
            "history": str(self.history),
            "output": str(self.output),
            "arguments": given,
        }
        (place / "settings.json").write_text(json.dumps(settings))
        launcher = sft_runs.ROOT / "tests" / "async_trainer.py"
        site = sysconfig.get_path("purelib")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(interpreter()), str(launcher), site, str(place / "settings.json")],
                cwd=place,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(place),
                    "PYTHONPATH": str(sft_runs.code(place)),
                    "OMP_NUM_THREADS": "1",
                    "HF_HUB_OFFLINE": "1",
                    "TRL_EXPERIMENTAL_SILENCE": "1",
                },
                stdout=log,
                stderr=log,
            )

    def said(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.history.read_text())
        return document

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def end(self, *, timeout_s: float) -> int:
        return self.process.wait(timeout_s)


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    made: list[Run] = []
    yield made
    for run in made:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


def test_trajectories_are_never_older_than_the_plan_allows(
    runs: list[Run], task: Path, tuned: Path, server: VllmServer, tmp_path: Path
) -> None:
    run = Run(tmp_path, task, tuned, server, steps=STEPS)
    runs.append(run)
    status = run.end(timeout_s=600)
    assert status == 0, run.log()[-4000:]
    history = [row for row in run.said()["history"] if "sample/staleness_max" in row]
    assert len(history) == STEPS
    means = [row["sample/staleness_mean"] for row in history]
    most = max(row["sample/staleness_max"] for row in history)
    dropped = sum(row.get("sample/dropped_stale_total") or 0.0 for row in history)
    before = sft_runs.exact_match(tmp_path / "before", tuned, task)
    after = sft_runs.exact_match(tmp_path / "after", run.output, task)
    print(f"{before=:.3f} {after=:.3f} staleness mean {sum(means) / STEPS:.2f} max {most:g}")
    print(f"dropped {dropped:g}")
    assert 0.0 < most <= STALENESS
    assert max(means) > 0.5, "it is asynchronous at all"
    assert after > before


def test_a_rollout_worker_that_dies_ends_the_trainer_within_seconds(
    runs: list[Run], task: Path, tuned: Path, server: VllmServer, tmp_path: Path
) -> None:
    run = Run(tmp_path, task, tuned, server, steps=5000)
    runs.append(run)
    until = time.monotonic() + 300
    while not run.history.exists():
        assert run.process.poll() is None, run.log()[-4000:]
        assert time.monotonic() < until
        time.sleep(0.2)
    os.kill(run.said()["worker"], signal.SIGKILL)
    since = time.monotonic()
    status = run.end(timeout_s=120)
    print(f"noticed after {time.monotonic() - since:.1f} s")
    assert status == contract.EXIT_ACTORS_LOST, run.log()[-4000:]
    assert "async: the rollout worker is lost" in run.log()
    assert time.monotonic() - since < 10.0
