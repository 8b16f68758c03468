"""Bounded-asynchronous GRPO for real: the program starts a vLLM server of its own on the CPU,
which samples ahead of the trainer and reads each update's adapter.

Slow, and only where vLLM is installed: `scripts/vllm_cpu.sh`.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from subprocess import Popen

import pytest

from inner_trials import contract, rollouts
from tests.integration import sft_runs
from tests.integration.sft_runs import Trial
from tests.vllm_server import NEEDS_VLLM, interpreter

pytestmark = [*NEEDS_VLLM, pytest.mark.train, pytest.mark.timeout(1200)]

BOUND = 2
OPTIONS = {
    "parameterization": "lora",
    "learning_rate": 5e-4,
    "max_steps": 60,
    "per_device_train_batch_size": 64,
    "num_generations": 8,
    "max_completion_length": 8,
    "max_length": 128,
    "warmup_steps": 0,
    "generation": "vllm_adapters",
    "staleness_bound": BOUND,
    "vllm_python": str(interpreter()),
}
HELD_BACK = """\
from inner_trials.actors import AdapterActors
sync = AdapterActors.sync_weights
AdapterActors.sync_weights = lambda self: None if self.version >= 0 else sync(self)
"""
UNTOLD = """\
from inner_trials.ahead import AheadActors
generate = AheadActors.generate
def claim(self, *args):
    held, self._bound = self._bound, 10**6
    found = generate(self, *args)
    self.sampled_at = [self._trainer.state.global_step] * len(self.sampled_at)
    return found
AheadActors.generate = claim
"""
"""Whoever keeps the books of versions is wrong, too."""


class Start:
    """Starts the one run of a test."""

    def __init__(self, directory: Path, task: Path, tuned: Path) -> None:
        self.directory, self._task, self._tuned = directory, task, tuned
        self.process: Popen[str] | None = None

    def __call__(self, *, patch: str = "", resume: Path | None = None, **more: object) -> Trial:
        packages = None
        if patch:
            packages = self.directory.parent / "patch"
            packages.mkdir()
            (packages / "sitecustomize.py").write_text(patch)
        trial, self.process = sft_runs.start(
            self.directory,
            self._task,
            program="grpo",
            base=self._tuned,
            packages=packages,
            resume=resume,
            **{**OPTIONS, **more},
        )
        return trial

    def end(self, *, timeout_s: float = 600.0) -> tuple[int, str]:
        assert self.process is not None
        log, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, log

    def wait_for_step(self, trial: Trial, step: int) -> None:
        assert self.process is not None
        until = time.monotonic() + 300
        reports = trial.directory / "reports"
        while not reports.exists() or step not in trial.values("train/loss"):
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.1)


@pytest.fixture
def start(
    tmp_path: Path, task: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = Start(tmp_path / "a", task, tuned)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def servers() -> list[int]:
    """The processes of the servers that programs started, and theirs."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                words = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if b"vllm.entrypoints" in words or words.startswith(b"VLLM::"):
                found.append(int(path.name))
    return found


def gone(before: list[int], *, patience_s: float = 15.0) -> bool:
    until = time.monotonic() + patience_s
    while set(servers()) - set(before):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def test_actors_that_sample_ahead_teach_the_trainer_and_are_never_older_than_the_bound(
    start: Start, task: Path, tuned: Path, tmp_path: Path
) -> None:
    before_all = servers()
    trial = start()
    status, log = start.end()
    assert status == 0, log[-4000:]
    assert gone(before_all)
    before = sft_runs.exact_match(tmp_path / "before", tuned, task)
    after = sft_runs.exact_match(tmp_path / "after", trial.model, task)
    mean, most = (trial.values(f"health/staleness{name}") for name in ("", "_max"))
    mismatch = trial.values("health/actor_mismatch")
    print(
        f"{before=:.3f} {after=:.3f} staleness {fmean(mean.values()):.2f} max {max(most.values())}"
    )
    print(f"mismatch {max(mismatch.values()):.2g}")
    assert after > before + 0.03
    assert 0.0 < max(most.values()) <= BOUND
    assert fmean(mean.values()) > 0.5, "it is asynchronous at all"
    assert set(trial.values("health/rollouts_dropped").values()) == {0.0}
    assert set(trial.values("alarm/any").values()) == {0.0}
    rows = rollouts.read_rollouts(trial.directory / "output" / "rollouts")
    assert len(rows) == 60 * 64
    assert min(trial.values("health/correction_min").values()) < 0.99, "there is much to correct"
    versions = [row["policy_version"] for row in rows]
    steps = [at // 64 for at in range(len(rows))]
    assert {step - version for step, version in zip(steps, versions, strict=True)} <= {0, 1, 2}
    assert not (trial.directory / "output" / "actors").exists()
