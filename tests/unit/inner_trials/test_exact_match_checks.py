"""The exact-match evaluator's own pieces, without torch: refusals, scoring, intervals."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from scipy.stats import binomtest

from evaluator.programs import exact_match
from evaluator.programs.exact_match import Item, Options, RefusedError, SetupError
from inner_trials import demo_task


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    demo_task.write_base(tmp_path / "model")
    demo_task.write_tokenizer(tmp_path / "model")
    return tmp_path / "model"


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def link_config(artifact: Path) -> None:
    (artifact / "config.json").rename(artifact / "elsewhere.json")
    (artifact / "config.json").symlink_to("elsewhere.json")


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "code for the model": (
        lambda a: edit(a / "config.json", auto_map={"AutoModelForCausalLM": "evil.Model"}),
        "config.json: auto_map",
    ),
    "code, nested": (
        lambda a: edit(a / "config.json", text_config={"auto_map": {"A": "b"}}),
        "config.json: auto_map",
    ),
    "code for the tokenizer": (
        lambda a: edit(a / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", None]}),
        "tokenizer_config.json: auto_map",
    ),
    "quantised": (
        lambda a: edit(a / "config.json", quantization_config={"quant_method": "awq"}),
        "quantization_config",
    ),
    "another architecture": (
        lambda a: edit(a / "config.json", architectures=["EvilForCausalLM"]),
        "'EvilForCausalLM' is not one of GPT2LMHeadModel",
    ),
    "no architecture": (lambda a: edit(a / "config.json", architectures=[]), "exactly one"),
    "pickle": (lambda a: (a / "pytorch_model.bin").touch(), "pickled"),
    "pickle, hidden": (
        lambda a: ((a / "sub").mkdir(), (a / "sub" / "x.PKL").touch()),
        "x.PKL: pickled",
    ),
    "a link": (link_config, "no such file"),
    "endless config": (
        lambda a: (a / "config.json").write_text(" " * (exact_match.CONFIG_BYTES + 1)),
        "larger than",
    ),
    "deep config": (
        lambda a: (a / "config.json").write_text("[" * 100_000),
        "config.json: not JSON",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_artifact_that_may_not_be_loaded_is_refused(artifact: Path, name: str) -> None:
    exact_match.check_artifact(artifact)
    attack, message = ATTACKS[name]
    attack(artifact)
    with pytest.raises(RefusedError, match=message):
        exact_match.check_artifact(artifact)


def test_only_config_and_weights_reach_the_library(artifact: Path, tmp_path: Path) -> None:
    for name in ("adapter_config.json", "modeling_evil.py"):
        (artifact / name).write_text("{}")
    edit(artifact / "config.json", attn_implementation="evil/kernel", _name_or_path="/etc")
    staged = tmp_path / "staged"
    staged.mkdir()
    _, config = exact_match.check_artifact(artifact)
    exact_match.stage_weights(artifact, config, staged)
    assert {path.name for path in staged.iterdir()} == {"config.json", "model.safetensors"}
    assert not {"attn_implementation", "_name_or_path"} & set(
        json.loads((staged / "config.json").read_text())
    )


def test_an_index_that_points_out_of_the_artifact_is_refused(
    artifact: Path, tmp_path: Path
) -> None:
    index = {"weight_map": {"lm_head.weight": "../../incumbent/model.safetensors"}}
    (artifact / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(RefusedError, match="not beside it"):
        exact_match.stage_weights(artifact, {}, tmp_path)


def test_a_linked_weight_file_does_not_count_as_weights(artifact: Path, tmp_path: Path) -> None:
    (artifact / "model.safetensors").rename(tmp_path / "model.safetensors")
    (artifact / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    with pytest.raises(RefusedError, match=r"no .safetensors file"):
        exact_match.stage_weights(artifact, {}, tmp_path)


def test_an_answer_counts_only_when_it_is_the_whole_text_and_ended() -> None:
    items = [
        Item("p", ("12",)),
        Item("p", ("12",)),
        Item("p", ("12", "twelve")),
        Item("p", ("1",)),
    ]
    answers = [("12", True), ("12", False), ("twelve", True), ("12", True)]
    found = exact_match.score(items, answers, Options(format="[0-9]+"))
    assert found["items"] == [1.0, 0.0, 1.0, 0.0]
    assert found["metrics"] == {"exact_match": 0.5, "format_ok": 0.5}


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (3, 10), (557, 1024), (10, 10)])
def test_the_interval_is_wilsons(hits: int, count: int) -> None:
    low, high = exact_match.wilson_interval(hits / count, count)
    known = binomtest(hits, count).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((known.low, known.high), abs=1e-12)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[]", "s.jsonl, line 2: write an object"),
        ('{"prompt": "a"', "s.jsonl, line 2: not JSON .*; write an object on each line"),
        ("[" * 100_000, "s.jsonl, line 2: not JSON"),
        (
            '{"prompt": 5, "answer": "b"}',
            r"line 2: write an object of prompt \(a text or messages\) and answer",
        ),
        (
            '{"prompt": "a"}',
            r"line 2: write an object of prompt \(a text or messages\) and answer",
        ),
        ('{"prompt": "a", "answer": 4}', "line 2: answer must be a text"),
        ('{"prompt": "a", "answer": []}', "line 2: answer must be a text"),
    ],
)
def test_a_malformed_item_is_named_by_line(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "s.jsonl").write_text('{"prompt": "a", "answer": "b"}\n' + row + "\n")
    with pytest.raises(SetupError, match=message):
        exact_match.read_items(tmp_path)


def test_an_item_that_is_not_utf_8_is_named_and_other_line_ends_are_part_of_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.jsonl").write_bytes(
        '{"prompt": "a\u2028b", "answer": "c"}\r\n'.encode() + b"\xff"
    )
    with pytest.raises(SetupError, match=r"s.jsonl, line 2: not JSON \('utf-8' codec"):
        exact_match.read_items(tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_tokens": 3}, "options.max_tokens: unknown; known options: max_new_tokens"),
        ({"batch_size": 0}, "options.batch_size: 0 is not allowed"),
        ({"batch_size": True}, "options.batch_size: True is not allowed"),
        ({"format": 3}, "options.format: 3 is not allowed"),
        ({"max_new_tokens": 1.0}, "options.max_new_tokens: 1.0 is not allowed"),
        ({"dtype": "int8"}, "'int8' is not one of float32"),
    ],
)
def test_wrong_options_are_refused_by_name(given: dict[str, object], message: str) -> None:
    with pytest.raises(SetupError, match=message):
        exact_match.read_options(given)
