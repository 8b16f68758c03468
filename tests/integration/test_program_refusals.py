"""Training programs on what they cannot train on: one line and an exit status, no traceback."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from inner_trials import contract, demo_task, dpo, rejection_sampling, reward_model, training
from tests.integration.sft_runs import ROOT

Prepare = Callable[[Mapping[str, Any]], Any]

PROGRAMS: dict[str, Prepare] = {
    "dpo": dpo.prepare,
    "reward_model": reward_model.prepare,
    "rejection_sampling": rejection_sampling.prepare,
}
PAIR = {"prompt": "sort 21", "chosen": "12", "rejected": "21"}
PROMPT = {"prompt": "sort 21", "answer": "12"}


class Study:
    """A params document being written, and what a program says of it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.inputs = {"base": root / "base"}
        demo_task.write_base(root / "base")
        demo_task.write_tokenizer(root / "base")
        monkeypatch.setenv("ARL_PARAMS", str(root / "params.json"))
        monkeypatch.setenv("ARL_OUTPUT", str(root / "output"))

    def mount(self, name: str, *rows: object) -> None:
        self.inputs[name] = self.root / f"{name}.jsonl"
        self.inputs[name].write_text("".join(json.dumps(row) + "\n" for row in rows))

    def edit(self, name: str, **fields: object) -> None:
        path = self.root / "base" / name
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    def run(self, program: str, **options: object) -> int:
        inputs = {name: str(path) for name, path in self.inputs.items()}
        document = {"options": options, "inputs": inputs}
        (self.root / "params.json").write_text(json.dumps(document))
        return training.execute(program, PROGRAMS[program], lambda _: False)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Study]:
    made = Study(tmp_path, monkeypatch)
    made.mount("train", PAIR)
    before = dict(os.environ)
    yield made
    # A program has its process to itself, and settles things that the next test must not find.
    os.environ.clear()
    os.environ.update(before)
    gc.enable()


def refused(capsys: pytest.CaptureFixture[str], status: int) -> str:
    assert status == contract.EXIT_BAD_INPUT
    log = capsys.readouterr().err
    assert log.count("\n") == 1, "one line, no traceback"
    return log


@pytest.mark.parametrize("program", ["dpo", "reward_model"])
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": "a", "completion": "b"}, "train.jsonl, line 2: chosen is missing"),
        ({**PAIR, "rejected": "12"}, "line 2: chosen and rejected are equal"),
        ([1], "line 2: expected a JSON object, not list"),
    ],
)
def test_a_row_that_is_no_pair_is_named(
    study: Study, capsys: pytest.CaptureFixture[str], program: str, row: object, reason: str
) -> None:
    study.mount("train", PAIR, row)
    log = refused(capsys, study.run(program))
    assert log.startswith(f"{program}: train.jsonl")
    assert reason in log


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_empty_data_is_refused(
    study: Study, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    study.mount("train")
    assert "train.jsonl: no rows in it" in refused(capsys, study.run(program))


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_an_unknown_option_is_named_with_the_known_ones(
    study: Study, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    log = refused(capsys, study.run(program, learning_rat=0.1))
    assert "options.learning_rat: unknown option (did you mean learning_rate" in log


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_a_changed_chat_template_is_refused(
    study: Study, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    study.mount("train", {**PAIR, **PROMPT})
    log = refused(capsys, study.run(program, chat_template_sha256="0" * 64))
    assert "base: its chat template is 58edca8ad2b4260f…, but 0000000000000000… was pinned" in log


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_an_adapter_for_another_base_is_refused(
    study: Study, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    study.mount("train", {**PAIR, **PROMPT})
    adapter = study.root / "adapter"
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    demo_task._write_safetensors(adapter_file(adapter), {name: (4, 128)}, 0)
    study.inputs["adapter"] = adapter
    assert "is for another base" in refused(capsys, study.run(program))


@pytest.mark.parametrize(
    ("note", "reason"),
    [
        ({"adapter_sha256": "1" * 64}, "adapter: it was trained on its base with another adapter"),
        ({"weights_sha256": "1" * 64}, "adapter: it was trained on another base"),
        ([], "adapter/base.json: expected a JSON object"),
        ("{", "adapter/base.json: not JSON"),
    ],
)
def test_an_adapter_that_does_not_stand_on_the_base_alone_is_refused(
    study: Study, capsys: pytest.CaptureFixture[str], note: object, reason: str
) -> None:
    adapter = study.root / "adapter"
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    demo_task._write_safetensors(adapter_file(adapter), {name: (4, demo_task.HIDDEN)}, 0)
    study.inputs["adapter"] = adapter
    assert study.run("dpo") == 0
    (adapter / "base.json").write_text(note if isinstance(note, str) else json.dumps(note))
    assert reason in refused(capsys, study.run("dpo"))


def adapter_file(directory: Path) -> Path:
    directory.mkdir()
    (directory / "adapter_config.json").write_text("{}")
    return directory / "adapter_model.safetensors"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"loss_type": "exo_pair"}, "label_smoothing: 0.0 must be between 0 and 1"),
        ({"label_smoothing": 0.5}, "label_smoothing: 0.5 must be less than 0.5"),
        ({"loss_type": "aot", "f_divergence": "forward_kl"}, "needs a loss_type of the rewards'"),
        ({"reference": "adapter"}, "reference: adapter needs one; write parameterization: lora"),
        ({"loss_type": "dpo"}, "'dpo' is not one of sigmoid, hinge"),
        ({"beta": 0}, "beta: 0.0 must be more than 0.0"),
    ],
)
def test_settings_of_dpo_that_make_no_sense_together_are_refused(
    study: Study, capsys: pytest.CaptureFixture[str], options: dict[str, object], reason: str
) -> None:
    assert reason in refused(capsys, study.run("dpo", **options))


def test_a_reference_with_another_tokenizer_is_refused(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    other = study.root / "other"
    demo_task.write_base(other)
    demo_task.write_tokenizer(other)
    study.inputs["reference"] = other
    assert study.run("dpo") == 0
    path = other / "tokenizer.json"
    path.write_text(path.read_text().replace('"9": ', '"8": ', 1))
    assert "its tokenizer is not the base's" in refused(capsys, study.run("dpo"))


def test_a_reward_model_without_padding_of_its_own_is_refused(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    study.edit("tokenizer_config.json", pad_token=None)
    log = refused(capsys, study.run("reward_model"))
    assert "its pad_token is missing" in log


def test_a_reward_model_has_no_likelihoods_to_keep(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    study.mount("fixed", {"prompt": "a", "completion": "b"})
    assert "mount heldout instead" in refused(capsys, study.run("reward_model"))


def test_a_prompt_that_its_verifier_cannot_judge_is_named(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    study.mount("train", PROMPT, {"prompt": "sort 3"})
    log = refused(capsys, study.run("rejection_sampling"))
    assert "train.jsonl, line 2: answer is missing" in log
    log = refused(capsys, study.run("rejection_sampling", verifier="exactly"))
    assert "options.verifier: 'exactly' is not one of" in log


def test_a_judge_that_is_no_reward_model_is_refused(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    study.mount("train", PROMPT)
    study.inputs["reward"] = study.root / "base"
    assert "base: is no reward model" in refused(capsys, study.run("rejection_sampling"))


def test_held_out_pairs_have_to_be_of_the_same_kind(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    study.mount("heldout", {"prompt": "a", "completion": "b"})
    assert "heldout.jsonl, line 1: chosen is missing" in refused(capsys, study.run("dpo"))


@pytest.mark.train
@pytest.mark.filterwarnings("ignore")
def test_a_lack_of_memory_is_one_line_with_what_to_change_and_a_status_of_its_own(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    def greedy(_: object) -> bool:
        return bool(torch.zeros(2**48).sum())

    (study.root / "params.json").write_text(json.dumps({"inputs": {}}))
    status = training.execute("dpo", lambda _: None, greedy)
    log = capsys.readouterr().err
    assert status == contract.EXIT_OUT_OF_MEMORY
    assert log.startswith("dpo: out of memory: ")
    assert "per_device_train_batch_size" in log


def test_a_mistake_of_the_programs_own_keeps_its_traceback(study: Study) -> None:
    def broken(_: object) -> bool:
        raise RuntimeError("a mistake")

    (study.root / "params.json").write_text(json.dumps({"inputs": {}}))
    with pytest.raises(RuntimeError, match="a mistake"):
        training.execute("dpo", lambda _: None, broken)


@pytest.mark.parametrize("program", list(PROGRAMS))
def test_a_program_imports_no_training_library_before_it_has_read_its_data(program: str) -> None:
    code = (
        f"import sys, inner_trials.{program};"
        "print({'torch', 'trl', 'transformers', 'datasets'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "set()\n", done.stderr
