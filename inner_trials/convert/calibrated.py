"""GPTQ and AWQ: 4 bits a weight, chosen by what the model computes on training rows, with
llm-compressor."""

import importlib.util
from pathlib import Path
from typing import Any

from inner_trials import data, models
from inner_trials.convert import loading
from inner_trials.convert.weight_only import check_groups
from inner_trials.settings import SettingsError

LONGEST_TOKENS = 2048
"""Of a calibration row."""


def check(artifact: Path, group_size: int) -> None:
    """Raises SettingsError: llm-compressor is missing, or the groups do not fit the model."""
    if importlib.util.find_spec("llmcompressor") is None:
        raise SettingsError(
            "options.method: gptq and awq need llm-compressor, which this Python lacks; it wants"
            " an environment of its own: name its interpreter in convert's python"
            " (scripts/beside.sh llmcompressor makes one)"
        )
    check_groups(artifact, group_size)


def quantise(
    artifact: Path, output: Path, method: str, train: Path, *, group_size: int, rows: int
) -> None:
    """Calibrate on the first `rows` of the training data and write the packed weights."""
    from datasets import Dataset
    from llmcompressor import oneshot

    _pin_nothing()
    tokenizer = models.load_tokenizer(artifact)
    length = min(LONGEST_TOKENS, models.context_tokens(artifact) or LONGEST_TOKENS)
    calibration = token_rows(tokenizer, train, rows, length)
    model = loading.load(artifact)
    oneshot(
        model=model,
        tokenizer=tokenizer,
        recipe=recipe(method, group_size),
        dataset=Dataset.from_list(calibration),
        num_calibration_samples=len(calibration),
        max_seq_length=length,
        shuffle_calibration_samples=False,
    )
    model.save_pretrained(output, save_compressed=True)


def _pin_nothing() -> None:
    """AWQ pins its cache for the way to an accelerator, and 0.14 fails where there is none."""
    import torch
    from llmcompressor.pipelines.cache import IntermediatesCache

    if not torch.cuda.is_available():
        IntermediatesCache.pin_memory = lambda *_args, **_kwargs: None


def recipe(method: str, group_size: int) -> list[Any]:
    """llm-compressor's modifiers: every linear layer but the head, symmetric groups of 4 bits."""
    from llmcompressor.modifiers.quantization import GPTQModifier, QuantizationModifier

    weights = {
        "num_bits": 4,
        "type": "int",
        "symmetric": True,
        "strategy": "group",
        "group_size": group_size,
    }
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    if method == "gptq":
        return [GPTQModifier(config_groups=groups, ignore=["lm_head"])]
    from llmcompressor.modifiers.transform.awq import AWQModifier

    return [AWQModifier(), QuantizationModifier(config_groups=groups, ignore=["lm_head"])]


def token_rows(tokenizer: Any, train: Path, rows: int, length: int) -> list[dict[str, list[int]]]:
    """The first rows as the model reads them: with their answers where they have one, through
    the chat template where the tokenizer has one.

    Raises:
        DataError: there is no row with a text.
    """
    found = []
    for row in data.read_rows(train):
        text = _text_of(tokenizer, row.fields)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"][:length] if text else []
        if len(ids) > 1:
            found.append({"input_ids": list(ids), "attention_mask": [1] * len(ids)})
        if len(found) == rows:
            break
    if not found:
        raise data.DataError(f"{train.name}: no row with a text to calibrate on")
    return found


def _text_of(tokenizer: Any, fields: Any) -> str:
    asked = fields.get("messages") or fields.get("prompt") or fields.get("text") or ""
    answers = (fields.get(name) for name in ("completion", "answer", "chosen"))
    answer = next((a for a in answers if a), "")
    if isinstance(answer, list) and answer and isinstance(answer[0], str):
        answer = answer[0]
    if tokenizer.chat_template is None:
        return f"{asked}{answer}" if isinstance(asked, str) and isinstance(answer, str) else ""
    if isinstance(asked, str):
        asked = [{"role": "user", "content": asked}] if asked else []
    if isinstance(answer, str):
        answer = [{"role": "assistant", "content": answer}] if answer else []
    turns = [*asked, *answer]
    return str(tokenizer.apply_chat_template(turns, tokenize=False)) if turns else ""
