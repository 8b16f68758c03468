"""The demo's task: a tiny language model that has to learn to sort five digits.

`python -m inner_trials.demo_task DIRECTORY [--seed N]` writes

    base/        Llama of 133,824 parameters with random weights, character-level tokenizer
    data/        train.jsonl: 2,000 rows of prompt and completion
    evaluator/   search.jsonl and holdout.jsonl, disjoint from each other and from the training
                 rows, and tokenizer/: the frozen tokenizer the evaluator reads prompts with

Standard library only and exact arithmetic only: the same seed gives the same bytes everywhere.
"""

import argparse
import json
import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TRAIN_ROWS: Final = 2_000
SEARCH_ITEMS: Final = 512
HOLDOUT_ITEMS: Final = 2_048
DIGITS: Final = 5

HIDDEN: Final = 64
LAYERS: Final = 2
HEADS: Final = 2
"""Head size 32, the smallest that vLLM's CPU kernels take."""
INTERMEDIATE: Final = 256
POSITIONS: Final = 128
INITIAL_DEVIATION: Final = 0.02

PAD, END, USER, ASSISTANT = "<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"
SPECIAL: Final = (PAD, END, USER, ASSISTANT)
CHARACTERS: Final = " 0123456789orst"

CHAT_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "<|assistant|>{% generation %}{{ message['content'] }}<|end|>{% endgeneration %}"
    "{% else %}<|user|>{{ message['content'] }}<|end|>{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_task(directory: Path, *, seed: int = 0) -> None:
    """Write the whole task below `directory`, which may exist; files of the same name are
    replaced."""
    write_base(directory / "base", seed=seed)
    write_tokenizer(directory / "base")
    write_tokenizer(directory / "evaluator" / "tokenizer")
    rows = list(_distinct_rows(TRAIN_ROWS + SEARCH_ITEMS + HOLDOUT_ITEMS, seed))
    train, rest = rows[:TRAIN_ROWS], rows[TRAIN_ROWS:]
    _write_lines(
        directory / "data" / "train.jsonl",
        [{"prompt": prompt, "completion": answer} for prompt, answer in train],
    )
    for name, items in (("search", rest[:SEARCH_ITEMS]), ("holdout", rest[SEARCH_ITEMS:])):
        _write_lines(
            directory / "evaluator" / f"{name}.jsonl",
            [{"prompt": prompt, "answer": answer} for prompt, answer in items],
        )


def write_base(directory: Path, *, seed: int = 0) -> None:
    """Write config.json and model.safetensors of an untrained model."""
    vocabulary = len(SPECIAL) + len(CHARACTERS)
    end = SPECIAL.index(END)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HIDDEN // HEADS,
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": end,
        "pad_token_id": SPECIAL.index(PAD),
        "dtype": "float32",
    }
    _write_json(directory / "config.json", config)
    generation = {"eos_token_id": end, "pad_token_id": SPECIAL.index(PAD)}
    _write_json(directory / "generation_config.json", generation)
    _write_safetensors(directory / "model.safetensors", _shapes(vocabulary), seed)


def write_tokenizer(directory: Path) -> None:
    """Write a fast tokenizer with one token a character, and its chat template."""
    special = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, token in enumerate(SPECIAL)
    ]
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *CHARACTERS])}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"Regex": ""},
            "behavior": "Isolated",
            "invert": False,
        },
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": PAD},
    }
    _write_json(directory / "tokenizer.json", tokenizer)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "eos_token": END,
        "additional_special_tokens": [USER, ASSISTANT],
        "padding_side": "left",
        "model_max_length": POSITIONS,
        "clean_up_tokenization_spaces": False,
    }
    _write_json(directory / "tokenizer_config.json", settings)
    (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def _distinct_rows(count: int, seed: int) -> Iterator[tuple[str, str]]:
    values = random.Random(f"sort/{seed}").sample(range(10**DIGITS), count)
    for value in values:
        digits = f"{value:0{DIGITS}d}"
        yield f"sort {digits}", "".join(sorted(digits))


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        for projection in ("q", "k", "v", "o"):
            shapes[f"{prefix}.self_attn.{projection}_proj.weight"] = (HIDDEN, HIDDEN)
        shapes[f"{prefix}.mlp.gate_proj.weight"] = (INTERMEDIATE, HIDDEN)
        shapes[f"{prefix}.mlp.up_proj.weight"] = (INTERMEDIATE, HIDDEN)
        shapes[f"{prefix}.mlp.down_proj.weight"] = (HIDDEN, INTERMEDIATE)
        shapes[f"{prefix}.input_layernorm.weight"] = (HIDDEN,)
        shapes[f"{prefix}.post_attention_layernorm.weight"] = (HIDDEN,)
    shapes["model.norm.weight"] = (HIDDEN,)
    shapes["lm_head.weight"] = (vocabulary, HIDDEN)
    return shapes


def _write_safetensors(path: Path, shapes: dict[str, tuple[int, ...]], seed: int) -> None:
    # Uniform weights with the usual deviation: unlike normal ones they need no libm, whose last
    # bit differs between platforms.
    bound = INITIAL_DEVIATION * math.sqrt(3.0)
    chance = random.Random(f"weights/{seed}").random
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, shape in shapes.items():
        size = math.prod(shape)
        is_norm = name.endswith("norm.weight")
        values = [1.0 if is_norm else (2.0 * chance() - 1.0) * bound for _ in range(size)]
        start = len(body)
        body += struct.pack(f"<{size}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(body)]}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + body)


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the demo's task.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write_task(arguments.directory, seed=arguments.seed)


if __name__ == "__main__":
    main()
