"""The evaluator programs as processes, on models whose answers and likelihoods are known."""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from inner_trials import demo_task
from inner_trials.contract import EXIT_BAD_INPUT, EXIT_REFUSED
from tests.integration import sft_runs
from tests.integration.test_exact_match import write_automaton

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def says_12(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that answers 12 to everything, as good as surely."""
    directory = tmp_path_factory.mktemp("model")
    write_automaton(directory, {demo_task.ASSISTANT: "1", "1": "2", "2": demo_task.END})
    return directory


@pytest.fixture(scope="module")
def says_3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    write_automaton(directory, {demo_task.ASSISTANT: "3", "3": demo_task.END})
    return directory


@pytest.fixture(scope="module")
def prefers_2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reward model: 1 for answers whose last character is 2, else 0 (before normalisation)."""
    import torch
    from safetensors.torch import load_file, save_file

    directory = tmp_path_factory.mktemp("reward")
    write_automaton(directory, {})
    demo_task.write_tokenizer(directory)
    weights = load_file(directory / "model.safetensors")
    del weights["lm_head.weight"]
    tokens = [*demo_task.SPECIAL, *demo_task.CHARACTERS]
    # Each token is its own direction; the end token alone would hide what came before it, so
    # the reward is read off the end token's value and of attention, which looks at all alike.
    hidden = demo_task.HIDDEN
    two = tokens.index("2")
    values = torch.zeros(hidden, hidden)
    values[hidden - 1, two] = 1.0
    output = torch.zeros(hidden, hidden)
    output[hidden - 1, hidden - 1] = 8.0
    weights["model.layers.0.self_attn.v_proj.weight"] = values
    weights["model.layers.0.self_attn.o_proj.weight"] = output
    weights["score.weight"] = torch.zeros(1, hidden)
    weights["score.weight"][0, hidden - 1] = 1.0
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config |= {"architectures": ["LlamaForSequenceClassification"], "num_labels": 1}
    config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    demo_task.write_tokenizer(tmp_path / "frozen")
    return tmp_path / "frozen"


def write_split(tmp_path: Path, *rows: Mapping[str, object]) -> Path:
    path = tmp_path / "split.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def metrics_of(run: tuple[int, dict[str, object], str]) -> tuple[dict[str, float], list[float]]:
    status, document, log = run
    assert status == 0, log
    metrics, items = document["metrics"], document["items"]
    assert isinstance(metrics, dict)
    assert isinstance(items, list)
    for name in metrics:
        assert f"{name} " in log
        assert "95% interval" in log
    return metrics, items


def test_perplexity_is_one_where_the_model_is_sure_and_huge_where_it_is_sure_of_another(
    says_12: Path, tokenizer: Path, tmp_path: Path
) -> None:
    split = write_split(
        tmp_path, {"prompt": "sort 21", "answer": "12"}, {"prompt": "sort 1", "answer": ["1"]}
    )
    metrics, items = metrics_of(
        sft_runs.score(
            tmp_path / "b", "perplexity", says_12, split, {"tokenizer": tokenizer}, batch_size=1
        )
    )
    # Tokens of the answers: 1, 2, end; and 1, then the end where a 2 was certain. A certain
    # token's logit is SCALE * sqrt(HIDDEN) = 80 above all others.
    assert items[0] == pytest.approx(0.0, abs=1e-5)
    assert items[1] == pytest.approx(80 / 2, rel=1e-4)
    assert metrics["loss"] == pytest.approx(80 / 5, rel=1e-4)
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["loss"]), rel=1e-6)


def test_pass_at_k_counts_samples_that_are_right(
    says_12: Path, tokenizer: Path, tmp_path: Path
) -> None:
    split = write_split(
        tmp_path, {"prompt": "sort 21", "answer": "12"}, {"prompt": "sort 3", "answer": "3"}
    )
    metrics, items = metrics_of(
        sft_runs.score(
            tmp_path / "b",
            "pass_at_k",
            says_12,
            split,
            {"tokenizer": tokenizer},
            k=2,
            samples=3,
            max_new_tokens=5,
        )
    )
    assert metrics == {"pass_at_1": 0.5, "pass_at_k": 0.5}
    assert items == [1.0, 0.0]


def test_a_reward_model_is_scored_by_the_pairs_it_ranks_right(
    prefers_2: Path, tokenizer: Path, tmp_path: Path
) -> None:
    split = write_split(
        tmp_path,
        {"prompt": "sort 1", "chosen": "12", "rejected": "13"},
        {"prompt": "sort 1", "chosen": "13", "rejected": "12"},
        {"prompt": "sort 1", "chosen": "13", "rejected": "31"},
    )
    metrics, items = metrics_of(
        sft_runs.score(tmp_path / "b", "pair_accuracy", prefers_2, split, {"tokenizer": tokenizer})
    )
    assert items[:2] == [1.0, 0.0]
    assert metrics["pair_accuracy"] == pytest.approx(sum(items) / 3)
    assert metrics["margin"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_win_rate_is_of_answers_that_the_fixed_judge_prefers(
    says_12: Path, says_3: Path, prefers_2: Path, tokenizer: Path, tmp_path: Path
) -> None:
    split = write_split(
        tmp_path,
        {"prompt": "sort 31", "reference": "13"},
        {"prompt": "sort 13", "reference": "12"},
        {"prompt": "sort 14", "reference": "22"},
    )
    brings = {"tokenizer": tokenizer, "reward": prefers_2}
    metrics, items = metrics_of(
        sft_runs.score(tmp_path / "b", "win_rate", says_12, split, brings, max_new_tokens=4)
    )
    assert items == [1.0, 0.5, 0.0]
    assert metrics["win_rate"] == 0.5
    brings["incumbent"] = says_3
    metrics, items = metrics_of(
        sft_runs.score(tmp_path / "c", "win_rate", says_12, split, brings, max_new_tokens=4)
    )
    assert items == [1.0, 1.0, 1.0]


@pytest.mark.slow
def test_win_rate_judges_a_converted_model_by_a_judge_that_was_not(
    says_12: Path, says_3: Path, prefers_2: Path, tokenizer: Path, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    brings = {"tokenizer": tokenizer, "reward": prefers_2, "incumbent": says_3}
    split = write_split(tmp_path, {"prompt": "sort 31"})
    made = kept_with_an_adapter_of_zeros(says_12, tmp_path / "made")
    how = {"method": "keep"}
    run = sft_runs.score(
        tmp_path / "b", "win_rate", made, split, brings, converted=how, max_new_tokens=4
    )
    assert metrics_of(run)[1] == [1.0]


def kept_with_an_adapter_of_zeros(model: Path, made: Path) -> Path:
    import torch
    from safetensors.torch import save_file

    shutil.copytree(model, made)
    (made / "adapter").mkdir()
    settings = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]}
    (made / "adapter" / "adapter_config.json").write_text(json.dumps(settings))
    place = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    shapes = {"A": (1, demo_task.HIDDEN), "B": (demo_task.HIDDEN, 1)}
    weights = {
        place.format(layer, name): torch.zeros(shape)
        for layer in range(demo_task.LAYERS)
        for name, shape in shapes.items()
    }
    save_file(weights, made / "adapter" / "adapter_model.safetensors", metadata={"format": "pt"})
    return made


def test_what_is_wrong_with_the_judge_is_not_the_artifacts(
    says_12: Path, prefers_2: Path, tokenizer: Path, tmp_path: Path
) -> None:
    split = write_split(tmp_path, {"prompt": "sort 31", "reference": "13"})
    shutil.copytree(prefers_2, tmp_path / "reward")
    (tmp_path / "reward" / "pytorch_model.bin").write_bytes(b"")
    brings = {"tokenizer": tokenizer, "reward": tmp_path / "reward"}
    status, _, log = sft_runs.score(tmp_path / "b", "win_rate", says_12, split, brings)
    assert status == EXIT_BAD_INPUT
    assert log.startswith("win_rate: the bundle's reward/: pytorch_model.bin: pickled files")


def test_a_command_scores_the_artifact_with_intervals(says_12: Path, tmp_path: Path) -> None:
    split = write_split(tmp_path, {"a": 1}, {"a": 2}, {"a": 3})
    script = (
        "import json, sys; n = len(open(sys.argv[1]).readlines());"
        "print(json.dumps({'items': {'right': [1, 0, 1][:n]}}))"
    )
    metrics, items = metrics_of(
        sft_runs.score(
            tmp_path / "b",
            "command",
            says_12,
            split,
            {},
            argv=["{python}", "-c", script, "{split}"],
            metrics=["right"],
        )
    )
    assert items == [1.0, 0.0, 1.0]
    assert metrics["right"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("program", ["perplexity", "pass_at_k", "pair_accuracy", "win_rate"])
def test_every_program_refuses_an_artifact_that_brings_code_without_a_score(
    says_12: Path, prefers_2: Path, tokenizer: Path, tmp_path: Path, program: str
) -> None:
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "config.json").write_text(json.dumps({"auto_map": {"A": "b.C"}}))
    row = {"prompt": "a", "answer": "b", "chosen": "b", "rejected": "c"}
    brings = {"tokenizer": tokenizer, "reward": prefers_2}
    status, document, log = sft_runs.score(
        tmp_path / "b", program, artifact, write_split(tmp_path, row), brings
    )
    assert (status, document) == (EXIT_REFUSED, {})
    assert log == f"{program}: config.json: auto_map is not allowed\n"
