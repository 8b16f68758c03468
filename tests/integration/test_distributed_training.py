"""Programs train in several processes: as one would, stopped, killed, resharded and exported."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from inner_trials import contract
from tests.integration import sft_runs
from tests.integration.distributed_runs import furthest, same_losses
from tests.integration.sft_runs import Trial

pytestmark = pytest.mark.train

BATCH = 24
"""Rows of one update: a number that one, two and three processes divide."""
STEPS: Mapping[str, Any] = {"max_steps": 6, "report_every": 1}
LORA: Mapping[str, Any] = {"parameterization": "lora", "keep_adapter": True}


def split(processes: int, trainer: str = "fsdp2") -> dict[str, Any]:
    """The same updates, over so many processes."""
    return {
        **STEPS,
        "trainer": trainer,
        "data_parallel": processes,
        "per_device_train_batch_size": BATCH // processes,
    }


def alone() -> dict[str, Any]:
    return {**STEPS, "per_device_train_batch_size": BATCH}


def ranks_of(process: "subprocess.Popen[str]") -> list[int]:
    """Process ids of the ranks that a program started, rank 0 first."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text().split()]


def wait_for(path: Path, pattern: str, patience_s: float = 120.0) -> None:
    deadline = time.monotonic() + patience_s
    while not list(path.glob(pattern)):
        assert time.monotonic() < deadline, f"no {pattern} in {path}"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory, task: Path) -> Trial:
    return sft_runs.train(tmp_path_factory.mktemp("single") / "a", task, **alone())


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, task: Path) -> Trial:
    """Two processes that were asked to stop: they left after the first step."""
    directory = sft_runs.ask_to_stop(tmp_path_factory.mktemp("two") / "stopped")
    return sft_runs.train(directory, task, status=contract.EXIT_STOPPED, **split(2))


def test_two_processes_stop_together_and_leave_one_model_and_one_checkpoint(
    stopped: Trial, tmp_path: Path
) -> None:
    assert list(stopped.values("train/loss")) == [1]
    assert [path.name for path in stopped.resume.iterdir()] == ["checkpoint-1"]
    lines = (stopped.directory / "reports").read_text().splitlines()
    assert len(lines) == len(set(lines)), "a second rank reported"
    # What one process reads of the two shards is the exported model, bit for bit.
    shards = stopped.resume / "checkpoint-1" / "pytorch_model_fsdp_0"
    dcp_to_torch_save(shards, tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt", weights_only=True)["model"]
    saved = load_file(stopped.model / "model.safetensors")
    assert whole.keys() == saved.keys()
    assert all(torch.equal(whole[name], saved[name]) for name in saved)


@pytest.mark.slow
def test_two_processes_learn_what_one_does_and_save_the_same_files(
    single: Trial, task: Path, tmp_path: Path
) -> None:
    two = sft_runs.train(tmp_path / "two", task, **split(2))
    again = sft_runs.train(tmp_path / "again", task, **split(2))
    assert same_losses(two, single)
    assert furthest(two.model, single.model) < 1e-6
    names = [sorted(p.name for p in trial.model.iterdir()) for trial in (two, single)]
    assert names[0] == names[1]
    assert (two.model / "config.json").read_text() == (single.model / "config.json").read_text()
    assert again.weights_digest() == two.weights_digest()


@pytest.mark.slow
def test_a_checkpoint_of_two_processes_goes_on_in_two_to_bitwise_equal_weights(
    stopped: Trial, task: Path, tmp_path: Path
) -> None:
    whole = sft_runs.train(tmp_path / "whole", task, **split(2))
    resumed = sft_runs.train(tmp_path / "resumed", task, resume=stopped.resume, **split(2))
    assert list(resumed.values("train/loss")) == [2, 3, 4, 5, 6]
    assert resumed.weights_digest() == whole.weights_digest()


@pytest.mark.slow
def test_a_checkpoint_of_two_goes_on_in_one_and_from_there_in_three(
    single: Trial, stopped: Trial, task: Path, tmp_path: Path
) -> None:
    one = sft_runs.train(
        sft_runs.ask_to_stop(tmp_path / "one"),
        task,
        status=contract.EXIT_STOPPED,
        resume=stopped.resume,
        **split(1),
    )
    assert list(one.values("train/loss")) == [2]
    three = sft_runs.train(tmp_path / "three", task, resume=one.resume, **split(3))
    assert list(three.values("train/loss")) == [3, 4, 5, 6]
    assert same_losses(one, single)
    assert same_losses(three, single)
    assert furthest(three.model, single.model) < 1e-6


@pytest.mark.slow
def test_lora_in_two_processes_is_merged_as_in_one(
    single: Trial, task: Path, tmp_path: Path
) -> None:
    base = single.model
    one = sft_runs.train(tmp_path / "one", task, base=base, **LORA, **alone())
    two = sft_runs.train(tmp_path / "two", task, base=base, **LORA, **split(2))
    assert same_losses(two, one)
    assert furthest(two.model, one.model) < 1e-6
    adapters = [trial.model / "adapter" / "adapter_model.safetensors" for trial in (one, two)]
    tensors = [load_file(path) for path in adapters]
    assert tensors[0].keys() == tensors[1].keys()


@pytest.mark.slow
def test_lora_in_two_processes_goes_on_from_its_checkpoint_to_the_same_weights(
    single: Trial, task: Path, tmp_path: Path
) -> None:
    base = single.model
    two = sft_runs.train(tmp_path / "two", task, base=base, **LORA, **split(2))
    stop = sft_runs.ask_to_stop(tmp_path / "stopped")
    left = sft_runs.train(stop, task, status=contract.EXIT_STOPPED, base=base, **LORA, **split(2))
    resumed = sft_runs.train(
        tmp_path / "resumed", task, base=base, resume=left.resume, **LORA, **split(2)
    )
    assert resumed.weights_digest() == two.weights_digest()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed_ends_the_attempt_within_seconds_and_says_so(
    victim: int, task: Path, tmp_path: Path
) -> None:
    trial, process = sft_runs.start(
        tmp_path / "killed", task, **{**split(2), "max_steps": 100_000, "save_every": 1}
    )
    wait_for(trial.directory / "output", "resume/checkpoint-*")
    ranks = ranks_of(process)
    os.kill(ranks[victim], signal.SIGKILL)
    killed = time.monotonic()
    log, _ = process.communicate(timeout=60)
    assert time.monotonic() - killed < 15.0
    assert process.returncode == contract.EXIT_RANK_LOST, log
    assert f"sft: rank {victim} of 2 was ended by SIGKILL" in log
    assert "Traceback" not in log
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)


@pytest.mark.slow
def test_the_ranks_go_with_the_process_that_started_them(task: Path, tmp_path: Path) -> None:
    trial, process = sft_runs.start(
        tmp_path / "killed", task, **{**split(2), "max_steps": 100_000, "save_every": 1}
    )
    wait_for(trial.directory / "output", "resume/checkpoint-*")
    ranks = ranks_of(process)
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 10.0
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in ranks):
        assert time.monotonic() < deadline
        time.sleep(0.05)
