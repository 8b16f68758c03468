"""The exact-match evaluator on models whose answers are known, friendly and hostile."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from inner_trials import demo_task
from inner_trials.contract import EXIT_REFUSED
from tests.integration import sft_runs

pytestmark = pytest.mark.train

SCALE = 10.0


def write_automaton(directory: Path, following: Mapping[str, str]) -> None:
    """A model that maps each token to the next: attention and MLP are zero, embeddings one-hot."""
    import torch
    from safetensors.torch import load_file, save_file

    demo_task.write_base(directory)
    tokens = [*demo_task.SPECIAL, *demo_task.CHARACTERS]
    weights = load_file(directory / "model.safetensors")
    for name, tensor in weights.items():
        if not name.endswith("norm.weight"):
            tensor.zero_()
    weights["model.embed_tokens.weight"][:, : len(tokens)] = torch.eye(len(tokens))
    for token, then in following.items():
        weights["lm_head.weight"][tokens.index(then), tokens.index(token)] = SCALE
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture(scope="module")
def says_12(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that answers 12 to everything."""
    directory = tmp_path_factory.mktemp("model")
    write_automaton(directory, {demo_task.ASSISTANT: "1", "1": "2", "2": demo_task.END})
    return directory


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    demo_task.write_tokenizer(tmp_path / "frozen")
    return tmp_path / "frozen"


@pytest.fixture
def split(tmp_path: Path) -> Path:
    rows = [
        {"prompt": "sort 21", "answer": "12"},
        {"prompt": "sort 54321", "answer": "12345"},
        {"prompt": [{"role": "user", "content": "sort 2 1"}], "answer": ["1 2", "12"]},
        {"prompt": "sort 3", "answer": "3"},
    ]
    (tmp_path / "split").mkdir()
    (tmp_path / "split" / "split.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return tmp_path / "split"


def test_a_known_model_gets_exactly_its_score_item_by_item(
    says_12: Path, split: Path, tokenizer: Path, tmp_path: Path
) -> None:
    status, document, log = sft_runs.evaluate(
        tmp_path / "b", says_12, split, tokenizer, format="[0-9]{5}", batch_size=3
    )
    assert status == 0, log
    assert document == {
        "metrics": {"exact_match": 0.5, "format_ok": 0.0},
        "items": [1.0, 0.0, 1.0, 0.0],
    }
    assert "exact_match 0.5000  95% interval 0.1500 to 0.8500  of 4 items" in log


def test_nothing_an_artifact_adds_to_its_weights_changes_its_score(
    says_12: Path, split: Path, tokenizer: Path, tmp_path: Path
) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("config.json", "model.safetensors"):
        (hostile / name).write_bytes((says_12 / name).read_bytes())
    (hostile / "chat_template.jinja").write_text("{{ 1 / 0 }}")
    (hostile / "tokenizer.json").write_text("{}")
    (hostile / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "/"}))
    generation = {"do_sample": True, "temperature": 9.0, "eos_token_id": 14, "max_length": 1}
    (hostile / "generation_config.json").write_text(json.dumps(generation))
    (hostile / "torch.py").write_text("raise SystemExit('imported')")
    status, document, log = sft_runs.evaluate(tmp_path / "b", hostile, split, tokenizer)
    assert status == 0, log
    assert document["items"] == [1.0, 0.0, 1.0, 0.0]


def test_without_a_frozen_tokenizer_the_artifacts_is_used_but_never_its_template(
    says_12: Path, tmp_path: Path
) -> None:
    (tmp_path / "split.jsonl").write_text('{"prompt": "sort 1", "answer": "2"}\n')
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    for path in says_12.iterdir():
        (artifact / path.name).write_bytes(path.read_bytes())
    demo_task.write_tokenizer(artifact)
    (artifact / "chat_template.jinja").write_text("{{ 1 / 0 }}")
    status, document, log = sft_runs.evaluate(tmp_path / "b", artifact, tmp_path / "split.jsonl")
    assert status == 0, log
    # The prompt as plain text ends in 1, and after 1 this model says 2 and ends.
    assert document["items"] == [1.0]


@pytest.mark.parametrize("damage", ["cut short", "a tensor missing", "another shape"])
def test_weights_that_do_not_fit_are_refused_without_a_score(
    says_12: Path, split: Path, tokenizer: Path, tmp_path: Path, damage: str
) -> None:
    from safetensors.torch import load_file, save_file

    artifact = tmp_path / "artifact"
    artifact.mkdir()
    weights = load_file(says_12 / "model.safetensors")
    if damage == "a tensor missing":
        del weights["lm_head.weight"]
    if damage == "another shape":
        weights["lm_head.weight"] = weights["lm_head.weight"][:, :32].contiguous()
    save_file(weights, artifact / "model.safetensors", metadata={"format": "pt"})
    if damage == "cut short":
        whole = (artifact / "model.safetensors").read_bytes()
        (artifact / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    (artifact / "config.json").write_bytes((says_12 / "config.json").read_bytes())
    status, document, log = sft_runs.evaluate(tmp_path / "b", artifact, split, tokenizer)
    assert (status, document) == (EXIT_REFUSED, {})
    assert log.startswith("exact_match: weights: "), log
    assert log.count("\n") == 1


def test_a_refusal_writes_no_score(says_12: Path, split: Path, tmp_path: Path) -> None:
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "config.json").write_text(json.dumps({"auto_map": {"A": "b"}}))
    status, document, log = sft_runs.evaluate(tmp_path / "b", artifact, split)
    assert (status, document) == (EXIT_REFUSED, {})
    assert log == "exact_match: config.json: auto_map is not allowed\n"


def test_a_format_that_is_no_expression_is_refused_before_anything_is_generated(
    says_12: Path, split: Path, tokenizer: Path, tmp_path: Path
) -> None:
    status, document, log = sft_runs.evaluate(
        tmp_path / "b", says_12, split, tokenizer, format="("
    )
    assert (status, document) == (2, {}), log
    assert log.startswith("exact_match: options.format: no regular expression: "), log
    assert log.count("\n") == 1
