"""The generated demo task: deterministic, disjoint and of the promised size."""

import hashlib
import json
from pathlib import Path

from inner_trials import demo_task, models


def digests(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def prompts(path: Path) -> list[str]:
    return [json.loads(line)["prompt"] for line in path.read_text().splitlines()]


def test_the_same_seed_writes_the_same_bytes_on_any_machine(tmp_path: Path) -> None:
    demo_task.write_task(tmp_path / "a")
    demo_task.write_task(tmp_path / "b")
    demo_task.write_task(tmp_path / "c", seed=1)
    first = digests(tmp_path / "a")
    assert first == digests(tmp_path / "b")
    assert first["base/model.safetensors"] != digests(tmp_path / "c")["base/model.safetensors"]
    # Pinned: a change of the task changes every score the demo's page quotes.
    assert first["base/model.safetensors"][:16] == "890cbf11f4ecd5e0"
    assert first["evaluator/holdout.jsonl"][:16] == "5b01c813865af831"


def test_training_search_and_holdout_are_disjoint_and_large_enough(tmp_path: Path) -> None:
    demo_task.write_task(tmp_path)
    train = prompts(tmp_path / "data" / "train.jsonl")
    search = prompts(tmp_path / "evaluator" / "search.jsonl")
    holdout = prompts(tmp_path / "evaluator" / "holdout.jsonl")
    assert (len(train), len(search), len(holdout)) == (2000, 512, 2048)
    assert len({*train, *search, *holdout}) == 4560


def test_every_answer_is_the_prompts_digits_sorted(tmp_path: Path) -> None:
    demo_task.write_task(tmp_path)
    for line in (tmp_path / "evaluator" / "holdout.jsonl").read_text().splitlines():
        item = json.loads(line)
        assert item["answer"] == "".join(sorted(item["prompt"].removeprefix("sort ")))


def test_the_base_is_a_model_that_may_be_loaded(tmp_path: Path) -> None:
    demo_task.write_base(tmp_path)
    summary = models.check_model(tmp_path)
    assert (summary.architecture, summary.parameters) == ("LlamaForCausalLM", 133_824)
