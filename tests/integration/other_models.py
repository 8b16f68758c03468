"""Tiny models that are not the demo's, written as their makers would: GPT-2, Qwen2."""

import json
import shutil
from pathlib import Path
from typing import Any

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% endif %}"
)
WORDS = "red green blue cat dog bird what colour is the tell me fast".split()
POSITIONS = 64


def write_models(directory: Path) -> None:
    """`gpt2`: no template, no padding token; `qwen2`: ChatML; and variants of them."""
    from transformers import GPT2Config, GPT2LMHeadModel, Qwen2Config, Qwen2ForCausalLM

    sizes = {"bos_token_id": 0, "eos_token_id": 0, "n_embd": 32, "n_layer": 1, "n_head": 2}
    tokenizer = byte_level("<|endoftext|>")
    gpt2 = GPT2LMHeadModel(
        GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=POSITIONS, **sizes)
    )
    save(directory / "gpt2", gpt2, tokenizer, eos_token="<|endoftext|>")
    save(directory / "endless", gpt2, tokenizer)
    tokenizer = byte_level("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    qwen2 = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=tokenizer.get_vocab_size() + 16,  # rounded up, as Qwen's are
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=POSITIONS,
            eos_token_id=2,
            pad_token_id=0,
            bos_token_id=None,
        )
    )
    special = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    save(directory / "qwen2", qwen2, tokenizer, template=CHATML, **special)
    save(directory / "no_system", qwen2, tokenizer, template=NO_SYSTEM + CHATML, **special)
    save(directory / "broken", qwen2, tokenizer, template=CHATML, **special)
    (directory / "broken" / "chat_template.jinja").write_text("{% for message in")
    write_variants(directory)


def byte_level(*special: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=list(special), initial_alphabet=alphabet
    )
    made.train_from_iterator([" ".join(WORDS)] * 4, trainer)
    return made


def save(directory: Path, model: Any, tokenizer: Any, template: str = "", **special: str) -> None:
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.chat_template = template or None
    model.save_pretrained(directory)
    fast.save_pretrained(directory)


def write_variants(directory: Path) -> None:
    """Ways in which a directory is no good any more."""
    from safetensors.torch import load_file, save_file

    for name in ("nan", "no_tokenizer", "half", "other_size", "unknown", "small"):
        shutil.copytree(directory / "qwen2", directory / name)
    (directory / "no_tokenizer" / "tokenizer.json").unlink()
    whole = (directory / "qwen2" / "model.safetensors").read_bytes()
    (directory / "half" / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    edit(directory / "other_size", hidden_size=64)
    edit(directory / "unknown", model_type="foo", architectures=["FooForCausalLM"])
    edit(directory / "small", vocab_size=200)
    weights = load_file(directory / "nan" / "model.safetensors")
    weights["model.norm.weight"][0] = float("nan")
    save_file(weights, directory / "nan" / "model.safetensors", metadata={"format": "pt"})


def edit(directory: Path, **fields: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


if __name__ == "__main__":
    import sys

    write_models(Path(sys.argv[1]))
