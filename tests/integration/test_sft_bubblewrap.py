"""A real training run inside the sandbox: its walls are not in the way of torch and TRL."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inner_trials import demo_task
from ledger.artifacts import ArtifactStore
from targets.bubblewrap import BubblewrapTarget
from targets.protocol import Program
from tests.integration.sft_runs import OPTIONS, ROOT
from tests.target_runs import attempt, bubblewrap_target, end_supervisor, finish, log_of

pytestmark = [pytest.mark.train, pytest.mark.bubblewrap]

GIB = 1024**3
LOADER = """
import torch
from torch.utils.data import DataLoader
if __name__ == "__main__":
    rows = torch.arange(64.0)
    for how in ("fork", "spawn"):
        loader = DataLoader(rows, batch_size=8, num_workers=2, multiprocessing_context=how)
        assert sum(float(batch.sum()) for batch in loader) == float(rows.sum())
    print("loaded by workers")
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def target(
    tmp_path_factory: pytest.TempPathFactory, store: ArtifactStore
) -> Iterator[BubblewrapTarget]:
    base = tmp_path_factory.mktemp("sandbox")
    made = bubblewrap_target(base, store)
    yield made
    made.close()
    end_supervisor(base / "bubblewrap-root")


def test_sft_trains_and_saves_a_model_inside_the_sandbox(
    target: BubblewrapTarget, store: ArtifactStore, tmp_path: Path
) -> None:
    demo_task.write_task(tmp_path / "task")
    code = tmp_path / "code" / "inner_trials"
    shutil.copytree(
        ROOT / "inner_trials", code, ignore=shutil.ignore_patterns("__pycache__", "Dockerfile")
    )
    inputs = {
        "base": store.put_tree(tmp_path / "task" / "base"),
        "train": store.put_tree(tmp_path / "task" / "data"),
        "code": store.put_tree(code.parent),
    }
    program = Program(
        argv=("{python}", "-P", "-m", "inner_trials.sft"),
        python=sys.executable,
        environment={"PYTHONPATH": "{code}"},
    )
    document = {"format": 1, "trial": "t", "kind": "sft", "seed": 0, "parameters": {}}
    spec = attempt(
        program,
        inputs=inputs,
        document={**document, "options": {**OPTIONS, "max_steps": 10}},
        limits={
            "timeout_s": 240.0,
            "memory_bytes": 8 * GIB,
            "output_bytes": GIB,
            "scratch_bytes": GIB,
        },
    )
    ended = finish(target, target.launch(spec), patience_s=240.0)
    assert ended.exit.code == 0, log_of(target, ended.handle)
    assert "train/loss" in {value.metric for value in ended.values}
    model = Path(target.outputs(ended.handle).root, "model")
    assert (model / "model.safetensors").stat().st_size > 1000
    assert json.loads((model / "config.json").read_text())


def test_data_loaders_share_tensors_between_processes_inside_the_sandbox(
    target: BubblewrapTarget, store: ArtifactStore, tmp_path: Path
) -> None:
    (tmp_path / "loader.py").write_text(LOADER)
    program = Program(argv=("{python}", "-P", "{code}/loader.py"), python=sys.executable)
    spec = attempt(program, inputs={"code": store.put_tree(tmp_path)}, limits={"timeout_s": 240.0})
    ended = finish(target, target.launch(spec), patience_s=240.0)
    assert "loaded by workers" in log_of(target, ended.handle), log_of(target, ended.handle)


def test_an_interpreter_beside_another_finds_what_that_has_and_no_more(
    target: BubblewrapTarget, tmp_path: Path
) -> None:
    """As scripts/beside.sh makes them: a few packages, and those of the environment that it
    names; what that has in development mode, which may be anything, stays outside."""
    developed = tmp_path / "developed"
    developed.mkdir()
    (developed / "checkout_of_somebody.py").write_text("")
    environments = [tmp_path / name for name in ("below", "beside")]
    for place in environments:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    below, beside = (next(p.glob("lib/python*/site-packages")) for p in environments)
    (below / "known_below.py").write_text("FOUND = True\n")
    (below / "developed.pth").write_text(f"{developed}\n")
    (beside / "beside.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n")
    code = (
        "import os, sys, known_below, importlib.util as u\n"
        "print(known_below.FOUND, u.find_spec('checkout_of_somebody'), "
        f"os.listdir({str(tmp_path)!r}))"
    )
    program = Program(argv=("{python}", "-c", code), python=str(beside.parents[2] / "bin/python"))
    ended = finish(target, target.launch(attempt(program)))
    assert ended.exit.code == 0, log_of(target, ended.handle)
    said = log_of(target, ended.handle).strip()
    assert said.startswith("True None "), said
    assert "developed" not in said
