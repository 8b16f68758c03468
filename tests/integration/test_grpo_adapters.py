"""GRPO beside a real vLLM server on a CPU, which is sent the adapter after each update.

Slow, and only where vLLM is installed: `scripts/vllm_cpu.sh`.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from subprocess import Popen

import pytest

from inner_trials import contract, rollouts
from tests.integration import sft_runs
from tests.integration.sft_runs import Trial
from tests.vllm_server import NEEDS_VLLM, VllmServer, vllm_server

pytestmark = [*NEEDS_VLLM, pytest.mark.train, pytest.mark.timeout(1200)]

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
}
ARGUMENTS = (
    *("--enable-lora", "--max-lora-rank", "16", "--max-loras", "2"),
    *("--logprobs-mode", "processed_logprobs", "--max-num-seqs", "64"),
)
STALE = """\
from inner_trials.actors import AdapterActors
sync = AdapterActors.sync_weights
AdapterActors.sync_weights = lambda self: None if self.version >= 0 else sync(self)
"""
PATIENCE_S = 4.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tuned: Path) -> Iterator[VllmServer]:
    place = tmp_path_factory.mktemp("vllm")
    allowed = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    with vllm_server(
        place, model=tuned, context=128, arguments=ARGUMENTS, environment=allowed
    ) as opened:
        yield opened


@pytest.fixture
def start(
    tmp_path: Path, task: Path, tuned: Path, server: VllmServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator["Start"]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = Start(tmp_path / "a", task, tuned, server)
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


class Start:
    """Starts the one run of a test."""

    def __init__(self, directory: Path, task: Path, tuned: Path, server: VllmServer) -> None:
        self._directory, self._task, self._tuned, self._server = directory, task, tuned, server
        self.process: Popen[str] | None = None

    def __call__(self, *, packages: Path | None = None, **more: object) -> Trial:
        trial, self.process = sft_runs.start(
            self._directory,
            self._task,
            program="grpo",
            base=self._tuned,
            packages=packages,
            **{**OPTIONS, "vllm_server": self._server.url, **more},
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


def test_actors_in_another_process_teach_the_trainer(
    start: Start, task: Path, tuned: Path, tmp_path: Path
) -> None:
    trial = start()
    status, log = start.end()
    assert status == 0, log[-4000:]
    before = sft_runs.exact_match(tmp_path / "before", tuned, task)
    after = sft_runs.exact_match(tmp_path / "after", trial.model, task)
    mismatch = trial.values("health/actor_mismatch")
    print(f"{before=:.3f} {after=:.3f} mismatch {max(mismatch.values()):.2g}")
    print(f"weight sync {fmean(trial.values('health/weight_sync_s').values()):.3f} s")
    assert after > before + 0.03
    assert set(trial.values("health/staleness").values()) == {0.0}
    assert max(mismatch.values()) < 1e-3, "the same numbers from the same weights"
    assert max(trial.values("health/importance_ratio_max").values()) < 1.01
    assert set(trial.values("alarm/any").values()) == {0.0}
    rows = rollouts.read_rollouts(trial.directory / "output" / "rollouts")
    assert len(rows) == 60 * 64
    assert {row["behaviour_source"] for row in rows} == {"sampler"}
    assert not list(trial.directory.glob("output/trainer/actors/*"))


def test_actors_that_are_no_longer_sent_anything_ring_both_alarms(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(STALE)
    trial = start(packages=tmp_path / "late", max_steps=24, learning_rate=3e-3)
    status, log = start.end()
    assert status == 0, log[-4000:]
    mismatch = trial.values("health/actor_mismatch")
    print(f"mismatch {mismatch[1]:.2g} -> {mismatch[24]:.2g}")
    assert mismatch[1] < 1e-3
    assert mismatch[24] > 0.1
    assert trial.values("health/staleness")[24] == 23.0
    assert 1.0 in trial.values("alarm/actor_mismatch").values()
    assert 1.0 in trial.values("alarm/stale_actors").values()
    correction = trial.values("health/correction_min")
    assert correction[24] < 0.5 < 0.99 < correction[1]


def test_a_rank_that_the_server_does_not_take_is_one_line(start: Start) -> None:
    start(lora_r=64)
    status, log = start.end()
    assert status == contract.EXIT_BAD_INPUT, log[-4000:]
    assert "grpo: options.vllm_server: " in log
    assert "--max-lora-rank" in log
    assert "Traceback" not in log


def test_a_server_that_stands_still_is_noticed_within_seconds(
    start: Start, server: VllmServer
) -> None:
    trial = start(max_steps=5000, vllm_patience_s=PATIENCE_S)
    start.wait_for_step(trial, 3)
    server.freeze()
    since = time.monotonic()
    try:
        status, log = start.end(timeout_s=120)
    finally:
        server.thaw()
    print(f"noticed after {time.monotonic() - since:.1f} s")
    assert status == contract.EXIT_ACTORS_LOST, log[-4000:]
    assert "grpo: the rollout server http://127.0.0.1" in log
    assert time.monotonic() - since < PATIENCE_S + 11.0


def test_a_server_that_dies_is_noticed_at_once(start: Start, server: VllmServer) -> None:
    trial = start(max_steps=5000)
    start.wait_for_step(trial, 3)
    server.kill()
    since = time.monotonic()
    status, log = start.end(timeout_s=120)
    print(f"noticed after {time.monotonic() - since:.1f} s")
    assert status == contract.EXIT_ACTORS_LOST, log[-4000:]
    assert "is lost: " in log
    assert "Traceback" not in log
    assert time.monotonic() - since < 5.0
