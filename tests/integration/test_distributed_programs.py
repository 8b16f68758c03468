"""Several processes: of every program that can, inside the sandbox, and what is refused."""

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inner_trials import contract, distributed, sft, sharding
from inner_trials.settings import SettingsError
from ledger.artifacts import ArtifactStore
from targets.protocol import Program
from tests.integration import preference_runs, sft_runs
from tests.integration.distributed_runs import furthest, same_losses
from tests.target_runs import attempt, bubblewrap_target, end_supervisor, finish, log_of

pytestmark = pytest.mark.train

GIB = 1024**3
TWO: Mapping[str, Any] = {
    "trainer": "fsdp2",
    "data_parallel": 2,
    "per_device_train_batch_size": 16,
}
ONE: Mapping[str, Any] = {"per_device_train_batch_size": 32}
SHORT: Mapping[str, Any] = {"max_steps": 4, "report_every": 1, "guard_every": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("dpo", {"reference": "copy"}),
        ("dpo", {"parameterization": "lora"}),
        ("reward_model", {}),
    ],
)
def test_preferences_are_learned_by_two_processes_as_by_one(
    program: str, options: dict[str, Any], task: Path, tmp_path: Path
) -> None:
    pairs = preference_runs.write_pairs(task, tmp_path / "pairs")
    given = {**SHORT, **options}
    one = sft_runs.train(tmp_path / "one", task, program=program, data=pairs, **ONE, **given)
    two = sft_runs.train(tmp_path / "two", task, program=program, data=pairs, **TWO, **given)
    assert same_losses(two, one)
    assert furthest(two.model, one.model) < 1e-5
    assert two.values("heldout/loss") == pytest.approx(one.values("heldout/loss"), abs=1e-4)
    names = [sorted(path.name for path in trial.model.iterdir()) for trial in (one, two)]
    assert names[0] == names[1]


@pytest.mark.slow
def test_guards_are_measured_by_all_ranks_and_told_by_one(task: Path, tmp_path: Path) -> None:
    data = {"train": task / "data", "fixed": task / "data"}
    one = sft_runs.train(tmp_path / "one", task, data=data, **ONE, **SHORT)
    two = sft_runs.train(tmp_path / "two", task, data=data, **TWO, **SHORT)
    found, expected = (trial.values("guard/forgetting") for trial in (two, one))
    assert list(found) == [2, 4]
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_a_loss_that_is_no_number_ends_all_ranks_with_its_own_reason(
    task: Path, tmp_path: Path
) -> None:
    given = {**SHORT, "learning_rate": 1e30, "warmup_steps": 0, "max_grad_norm": 0.0}
    trial, process = sft_runs.start(tmp_path / "nan", task, **TWO, **given)
    log, _ = process.communicate(timeout=280)
    assert process.returncode == contract.EXIT_NOT_FINITE, log
    assert "train/loss is nan at step" in log
    assert not (trial.model / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_two_processes_find_each_other_inside_the_sandbox(task: Path, tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path / "store")
    target = bubblewrap_target(tmp_path / "sandbox", store)
    code = tmp_path / "code" / "inner_trials"
    ignored = shutil.ignore_patterns("__pycache__", "Dockerfile")
    shutil.copytree(sft_runs.ROOT / "inner_trials", code, ignore=ignored)
    spec = attempt(
        Program(
            argv=("{python}", "-P", "-m", "inner_trials.sft"),
            python=sys.executable,
            environment={"PYTHONPATH": "{code}"},
        ),
        inputs={
            "base": store.put_tree(task / "base"),
            "train": store.put_tree(task / "data"),
            "code": store.put_tree(code.parent),
        },
        document={
            **{"format": 1, "trial": "t", "kind": "sft", "seed": 0, "parameters": {}},
            "options": {**sft_runs.OPTIONS, **TWO, **SHORT},
        },
        limits={
            **{"timeout_s": 280.0, "memory_bytes": 8 * GIB},
            **{"output_bytes": GIB, "scratch_bytes": GIB},
        },
    )
    try:
        ended = finish(target, target.launch(spec), patience_s=280.0)
        assert ended.exit.code == 0, log_of(target, ended.handle)
        steps = [v.step for v in ended.values if v.metric == "train/loss"]
        assert steps == [1, 2, 3, 4]
        model = Path(target.outputs(ended.handle).root, "model", "model.safetensors")
        assert model.stat().st_size > 1000
    finally:
        target.close()
        end_supervisor(tmp_path / "sandbox" / "bubblewrap-root")


@pytest.mark.parametrize(
    ("trainer", "found"), [("fsdp2", "MULTI_CPU"), ("zero3", "MULTI_CPU"), ("fsdp2", "NO")]
)
def test_data_parallelism_in_place_of_what_the_plan_says_is_refused(
    trainer: str, found: str
) -> None:
    trained = SimpleNamespace(
        args=SimpleNamespace(fsdp=trainer == "fsdp2", deepspeed=trainer == "zero3" or None),
        accelerator=SimpleNamespace(distributed_type=SimpleNamespace(name=found), is_fsdp2=False),
    )
    with pytest.raises(distributed.NotSharded, match=f"{trainer}, but accelerate runs {found}"):
        distributed.require(trained, None)


@pytest.mark.parametrize(
    ("files", "trainer", "processes", "words"),
    [
        (["pytorch_model_fsdp_0/x"], "single", 1, "write options.trainer: fsdp2"),
        (["optimizer.pt"], "fsdp2", 2, "write options.trainer: single"),
        (["optimizer.pt"], "zero3", 2, "trainer single wrote this checkpoint, and zero3 cannot"),
        (["global_step8/zero_pp_rank_0_mp_rank_00_optim_states.pt"], "zero3", 2, "parallel: 1"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_is_refused_with_what_wrote_it(
    files: list[str], trainer: str, processes: int, words: str, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    kind = {"fsdp2": "FSDP", "zero3": "DEEPSPEED"}.get(trainer, "NO")
    trained = SimpleNamespace(
        args=SimpleNamespace(
            fsdp=trainer == "fsdp2", deepspeed=trainer == "zero3", world_size=processes
        ),
        accelerator=SimpleNamespace(distributed_type=SimpleNamespace(name=kind), is_fsdp2=True),
    )
    with pytest.raises(distributed.NotSharded, match=words):
        distributed.require(trained, tmp_path)


def test_settings_that_no_launch_can_meet_are_refused_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert sharding.processes(sft.Settings()) == 0
    assert sharding.processes(sft.Settings(trainer="fsdp2")) == 1
    assert sharding.processes(sft.Settings(trainer="fsdp2", data_parallel=3)) == 3
    with pytest.raises(SettingsError, match="data_parallel: 2 needs trainer: fsdp2 or zero3"):
        sharding.processes(sft.Settings(data_parallel=2))
    with pytest.raises(SettingsError, match="splits no 4-bit weights"):
        sharding.processes(sft.Settings(trainer="fsdp2", parameterization="qlora"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="zero3 needs deepspeed"):
        sharding.processes(sft.Settings(trainer="zero3"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3")
    assert sharding.processes(sft.Settings(trainer="fsdp2")) == 4
