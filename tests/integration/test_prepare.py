"""The prepare program: what it reports of sound inputs, and how it refuses the others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from inner_trials import demo_task
from tests.integration.sft_runs import ROOT


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """The demo's inputs as a target mounts them: each its own directory."""
    task = tmp_path / "task"
    demo_task.write_task(task)
    mounted = {"base": task / "base", "train": task / "data", "code": ROOT / "inner_trials"}
    for split in ("search", "holdout"):
        mounted[f"split_{split}"] = tmp_path / "inputs" / split
        mounted[f"split_{split}"].mkdir(parents=True)
        (task / "evaluator" / f"{split}.jsonl").rename(mounted[f"split_{split}"] / "split.jsonl")
    return mounted


def prepare(tmp_path: Path, inputs: dict[str, Path], **options: object) -> dict[str, object]:
    params = tmp_path / "params.json"
    params.write_text(
        json.dumps({"options": options, "inputs": {n: str(p) for n, p in inputs.items()}})
    )
    reading, writing = os.pipe()
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "inner_trials.prepare"],
        env={
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "ARL_PARAMS": str(params),
            "ARL_SCORE_FD": str(writing),
        },
        pass_fds=[writing],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as channel:
        written = channel.read()
    assert done.returncode == 0, done.stderr
    assert written, done.stderr
    report = json.loads(written)
    assert isinstance(report, dict)
    return report


def add_line(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(line + "\n")


def test_sound_inputs_are_counted_hashed_and_found_clean(
    tmp_path: Path, inputs: dict[str, Path]
) -> None:
    report = prepare(tmp_path, inputs, program="sft")
    assert report["ok"] is True
    assert report["rows"] == {"train": 2000}
    assert report["base"] == {
        "architecture": "LlamaForCausalLM",
        "parameters": 133_824,
        "weight_files": 1,
    }
    files = report["files"]
    assert isinstance(files, dict)
    assert len(files["train"]["train.jsonl"]) == 64
    contamination = report["contamination"]
    assert isinstance(contamination, dict)
    assert {name: split["share"] for name, split in contamination.items()} == {
        "search": 0.0,
        "holdout": 0.0,
    }
    assert contamination["holdout"]["items"] == 2048


@pytest.mark.parametrize("split", ["search", "holdout"])
def test_one_leaked_item_of_either_split_is_contamination(
    tmp_path: Path, inputs: dict[str, Path], split: str
) -> None:
    item = json.loads((inputs[f"split_{split}"] / "split.jsonl").read_text().splitlines()[6])
    leaked = {"prompt": item["prompt"].upper(), "completion": item["answer"]}
    add_line(inputs["train"] / "train.jsonl", json.dumps(leaked))
    report = prepare(tmp_path, inputs, program="sft")
    assert (report["ok"], report["contaminated"]) == (False, True)
    assert f"1 of {2048 if split == 'holdout' else 512} items of the split {split}" in str(
        report["error"]
    )
    assert "split.jsonl, line 7" in str(report["error"])
    allowed = prepare(tmp_path, inputs, program="sft", max_contamination=0.01)
    assert allowed["ok"] is True


def test_items_that_both_splits_hold_are_counted(tmp_path: Path, inputs: dict[str, Path]) -> None:
    first = (inputs["split_holdout"] / "split.jsonl").read_text().splitlines()[0]
    add_line(inputs["split_search"] / "split.jsonl", first)
    contamination = prepare(tmp_path, inputs)["contamination"]
    assert isinstance(contamination, dict)
    assert contamination["search"]["also_in_other_splits"] == 1


def test_a_malformed_row_is_refused_for_sft_and_left_alone_for_other_programs(
    tmp_path: Path, inputs: dict[str, Path]
) -> None:
    add_line(inputs["train"] / "train.jsonl", "[1, 2]")
    reason = (
        "train.jsonl, line 2001: expected a JSON object, not list; write one JSON object on each"
        " line"
    )
    assert prepare(tmp_path, inputs, program="sft") == {"ok": False, "error": reason}
    report = prepare(tmp_path, inputs, program="command")
    assert report["ok"] is True
    assert report["uninspected"] == {"train": reason}


def test_a_base_without_safetensors_is_refused(tmp_path: Path, inputs: dict[str, Path]) -> None:
    (inputs["base"] / "model.safetensors").unlink()
    report = prepare(tmp_path, inputs)
    assert report["ok"] is False
    assert "no .safetensors file" in str(report["error"])


def test_inputs_that_are_not_rows_are_hashed_only(tmp_path: Path, inputs: dict[str, Path]) -> None:
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "a.csv").write_text("x\n1\n")
    report = prepare(tmp_path, inputs | {"table": tmp_path / "table"}, program="command")
    assert report["rows"] == {"table": None, "train": 2000}


def test_a_missing_input_is_refused_with_its_name(tmp_path: Path, inputs: dict[str, Path]) -> None:
    report = prepare(tmp_path, inputs | {"train": tmp_path / "nowhere"}, program="sft")
    assert report["ok"] is False
    assert "nowhere" in str(report["error"])
