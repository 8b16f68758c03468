"""Models, templates and data that are not ours: trained on, or refused in one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from inner_trials.contract import EXIT_REFUSED
from tests.integration import other_models, sft_runs
from tests.integration.many_programs import Attempt, Outcome, attempt, run_all
from tests.integration.sft_runs import ROOT

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]

ASKED = "what colour is the cat? "
LONG = "what colour is the cat " * 40
USER = {"role": "user", "content": ASKED}
SYSTEM = {"role": "system", "content": "be brief"}
RED, BLUE = ({"role": "assistant", "content": word} for word in ("red", "blue"))
ROWS: dict[str, list[dict[str, object]]] = {
    "texts": [{"prompt": ASKED, "completion": "red"}] * 8,
    "chats": [{"prompt": [USER], "completion": [RED]}] * 8,
    "turns": [{"messages": [USER, RED, USER, BLUE]}] * 8,
    "systems": [{"messages": [USER, RED]}, {"messages": [SYSTEM, USER, RED]}],
    "pairs": [{"prompt": ASKED, "chosen": "red", "rejected": "blue"}] * 8,
    "chat_pairs": [{"prompt": [USER], "chosen": [RED], "rejected": [BLUE]}] * 8,
    "long_pairs": [
        {"prompt": ASKED, "chosen": "red", "rejected": "blue"},
        {"prompt": LONG, "chosen": "red", "rejected": "blue"},
    ],
    "prompts": [{"prompt": f"{ASKED}{i} ", "answer": "red"} for i in range(8)],
    "chat_prompts": [{"prompt": [USER], "answer": "red"}] * 8,
    "one_prompt": [{"prompt": ASKED, "answer": "red"}],
    "long_prompts": [{"prompt": ASKED, "answer": "red"}, {"prompt": LONG, "answer": "red"}],
    "system_prompts": [
        {"prompt": [USER], "answer": "r"},
        {"prompt": [SYSTEM, USER], "answer": "r"},
    ],
}
REFUSED: dict[str, tuple[tuple[str, str, str], dict[str, object], int, str]] = {
    "nan": (("grpo", "nan", "prompts"), {}, 45, "probabilities are no numbers (NaN)"),
    "nan_loss": (("sft", "nan", "texts"), {}, 45, "train/loss is nan at step 1"),
    "endless": (
        ("sft", "endless", "texts"),
        {},
        2,
        "endless/tokenizer_config.json: eos_token is missing",
    ),
    "no_tokenizer": (
        ("sft", "no_tokenizer", "texts"),
        {},
        2,
        "no_tokenizer/tokenizer.json: no such file",
    ),
    "half": (("sft", "half", "texts"), {}, 2, "half: its model cannot be read"),
    "other_size": (
        ("sft", "other_size", "texts"),
        {},
        2,
        "of another shape than config.json says: lm_head.weight (316, 32) for (316, 64)",
    ),
    "unknown": (("sft", "unknown", "texts"), {}, 2, "unknown: its model cannot be read"),
    "small": (("sft", "small", "texts"), {}, 2, "but the model knows 200"),
    "broken": (
        ("dpo", "broken", "chat_pairs"),
        {},
        2,
        "chat_pairs.jsonl, line 1: the base's chat",
    ),
    "system": (
        ("sft", "no_system", "systems"),
        {},
        2,
        "systems.jsonl, line 2: the base's chat template cannot write it: System role not",
    ),
    "system_prompt": (
        ("grpo", "no_system", "system_prompts"),
        {},
        2,
        "system_prompts.jsonl, line 2: the base's chat template cannot write it",
    ),
    "turns": (
        ("sft", "qwen2", "turns"),
        {},
        2,
        "turns.jsonl, line 1: messages has more answers than its last",
    ),
    "no_template": (("dpo", "gpt2", "chat_pairs"), {}, 2, "but the base has no chat template"),
    "no_padding": (("reward_model", "gpt2", "pairs"), {}, 2, "its pad_token is missing"),
    "long_pair": (
        ("dpo", "qwen2", "long_pairs"),
        {},
        2,
        "the first long_pairs.jsonl, line 2, whose prompt has",
    ),
    "long_prompt": (
        ("grpo", "qwen2", "long_prompts"),
        {},
        2,
        "the longest, long_prompts.jsonl, line 2,",
    ),
    "one_prompt": (("grpo", "qwen2", "one_prompt"), {}, 2, "its 1 rows are too few for one batch"),
    "lora_target": (
        ("sft", "gpt2", "texts"),
        {"parameterization": "lora", "lora_target": "q_proj,v_proj"},
        2,
        "options.lora_target: the base has no part named 'q_proj'; write all-linear, or some of"
        " c_attn",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models, and the data below `rows`."""
    directory = tmp_path_factory.mktemp("others")
    argv = [sys.executable, "-m", "tests.integration.other_models", str(directory)]
    assert other_models.__file__ is not None
    subprocess.run(argv, cwd=ROOT, check=True, timeout=120)
    (directory / "rows").mkdir()
    for name, rows in ROWS.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (directory / "rows" / f"{name}.jsonl").write_text(text)
    return directory


def of(place: Path, program: str, base: str, rows: str, /, **options: object) -> Attempt:
    return attempt(program, place / base, place / "rows" / f"{rows}.jsonl", **options)


@pytest.fixture(scope="module")
def refusals(place: Path) -> dict[str, Outcome]:
    attempts = {
        name: of(place, *which, **options) for name, (which, options, _, _) in REFUSED.items()
    }
    return run_all(place / "refusals", attempts)


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_cannot_be_trained_on_is_told_in_one_line(
    refusals: dict[str, Outcome], name: str
) -> None:
    (program, _, _), _, status, reason = REFUSED[name]
    found = refusals[name]
    assert "Traceback" not in found.log
    assert found.status == status, found.log
    last = found.log.strip().splitlines()[-1]
    assert last.startswith(f"{program}: ")
    assert reason in last


@pytest.mark.slow
def test_an_adapter_goes_on_in_other_programs_and_single_modules_may_be_named(place: Path) -> None:
    lora = {"parameterization": "lora", "keep_adapter": True, "lora_r": 2}
    first = {
        "gpt2": of(place, "sft", "gpt2", "texts", **lora, lora_target="c_attn"),
        "qwen2": of(place, "sft", "qwen2", "chats", **lora, lora_target="q_proj"),
    }
    taught = run_all(place / "taught", first)
    assert {name: found.status for name, found in taught.items()} == dict.fromkeys(first, 0)
    adapters = {name: found.output / "model" / "adapter" for name, found in taught.items()}
    (adapters["gpt2"] / "base.json").unlink()
    second = {
        "gpt2": of(place, "sft", "gpt2", "texts"),
        "classifier": of(place, "reward_model", "qwen2", "pairs"),
        "foreign": of(place, "dpo", "qwen2", "pairs"),
    }
    mounted = {"gpt2": "gpt2", "classifier": "qwen2", "foreign": "gpt2"}
    found = run_all(
        place / "onward",
        {
            name: Attempt(
                given.program,
                given.base,
                {**given.inputs, "adapter": adapters[mounted[name]]},
                given.options,
            )
            for name, given in second.items()
        },
    )
    assert found["gpt2"].status == 0, found["gpt2"].log
    assert found["classifier"].status == 0, found["classifier"].log
    assert found["foreign"].status == 2
    assert "is for another base, which has none of that name" in found["foreign"].log


@pytest.mark.slow
@pytest.mark.parametrize("base", ["gpt2", "qwen2"])
def test_every_program_trains_it_on_texts_and_messages(place: Path, base: str) -> None:
    kinds = [
        *(("sft", "texts"), ("dpo", "pairs"), ("rejection_sampling", "prompts")),
        *(("grpo", "prompts"), ("ppo", "prompts")),
    ]
    if base == "qwen2":  # it has a template, and padding of its own
        kinds += [("reward_model", "pairs"), ("reward_model", "chat_pairs"), ("sft", "chats")]
        kinds += [("dpo", "chat_pairs"), ("rejection_sampling", "chat_prompts")]
        kinds += [("grpo", "chat_prompts"), ("ppo", "chat_prompts")]
    attempts = {
        f"{program}_{rows}": of(place, program, base, rows, loss_on="all")
        if program == "sft"
        else of(place, program, base, rows)
        for program, rows in kinds
    }
    for name, found in run_all(place / f"all_{base}", attempts).items():
        assert found.status == 0, f"{name}: {found.log}"
        assert (found.output / "model" / "model.safetensors").is_file(), name


@pytest.mark.slow
@pytest.mark.parametrize("program", ["exact_match", "perplexity"])
def test_an_evaluator_says_that_a_prompt_is_longer_than_the_model_has_positions(
    place: Path, tmp_path: Path, program: str
) -> None:
    split = place / "rows" / "long_prompts.jsonl"
    brings = {"tokenizer": place / "gpt2"}
    status, document, log = sft_runs.score(tmp_path, program, place / "gpt2", split, brings)
    assert (status, document) == (EXIT_REFUSED, {})
    assert f"{program}: a prompt has more tokens than the model has positions" in log
