"""Bounded-asynchronous GRPO for real: the program starts a vLLM server of its own on the CPU,
which samples ahead of the trainer and reads each update's adapter.

Slow, and only where vLLM is installed: `scripts/vllm_cpu.sh`.
"""

import os
import signal
import sys
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
import shutil
from inner_trials.rollout_server import Server
names, ask = {}, Server.ask
def stale(self, path, body=None):
    if path != "/v1/load_lora_adapter":
        return ask(self, path, body)
    if not names:
        names["path"] = shutil.copytree(body["lora_path"], body["lora_path"] + "-kept")
    return ask(self, path, {**body, "lora_path": names["path"]})
Server.ask = stale
"""
"""The server is given the first adapter again and again, by the newest name: by the books all is
well."""


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


def test_weights_that_stop_at_the_trainer_end_the_run_with_that_reason(start: Start) -> None:
    start(patch=HELD_BACK)
    status, log = start.end()
    assert status == contract.EXIT_ACTORS_LOST, log[-4000:]
    assert f"3 updates old, and staleness_bound is {BOUND}: they do not reach it" in log
    assert "Traceback" not in log


def test_stale_weights_under_a_new_name_ring_the_alarm(start: Start) -> None:
    trial = start(patch=UNTOLD, max_steps=24, learning_rate=3e-3)
    status, log = start.end()
    assert status == 0, log[-4000:]
    mismatch = trial.values("health/actor_mismatch")
    print(f"mismatch {mismatch[1]:.2g} -> {mismatch[24]:.2g}")
    assert mismatch[1] < 1e-3
    assert mismatch[24] > 0.3
    assert max(trial.values("health/staleness_max").values()) <= BOUND, "so the books say"
    assert 1.0 in trial.values("alarm/actor_mismatch").values()
    assert trial.values("health/correction_min")[24] < 0.5


def test_a_server_that_is_killed_is_noticed_within_seconds(start: Start) -> None:
    before = servers()
    trial = start(max_steps=5000)
    start.wait_for_step(trial, 3)
    for pid in set(servers()) - set(before):
        os.kill(pid, signal.SIGKILL)
    since = time.monotonic()
    status, log = start.end(timeout_s=120)
    took = time.monotonic() - since
    print(f"noticed after {took:.1f} s")
    assert status == contract.EXIT_ACTORS_LOST, log[-4000:]
    assert "grpo: the rollout server http://127.0.0.1" in log
    assert "Traceback" not in log
    assert took < 15.0


def test_a_trainer_that_is_killed_takes_its_server_along_and_goes_on_from_its_checkpoint(
    start: Start, task: Path, tuned: Path, tmp_path: Path
) -> None:
    before = servers()
    trial = start(max_steps=5000, save_every=4)
    start.wait_for_step(trial, 6)
    assert start.process is not None
    start.process.kill()
    start.process.communicate()
    assert gone(before)
    again = Start(tmp_path / "again" / "a", task, tuned)
    resumed = again(resume=trial.resume, max_steps=12)
    status, log = again.end()
    assert status == 0, log[-4000:]
    assert min(resumed.values("train/loss")) > 4
    assert set(resumed.values("health/rollouts_dropped").values()) == {0.0}, "its order goes on"


def test_a_python_without_vllm_is_one_line(start: Start) -> None:
    start(vllm_python=sys.executable)
    status, log = start.end()
    assert status == contract.EXIT_BAD_INPUT, log[-4000:]
    assert "grpo: options.vllm_python: " in log
    assert "No module named" in log
    assert "Traceback" not in log
