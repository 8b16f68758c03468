"""A base that can write calls of tools: the demo's, with more characters and another template."""

import json
from pathlib import Path

from inner_trials import demo_task

CHARACTERS = " 0123456789abcdefghijklmnopqrstuvwxyz{}[]\":,.-_'()ETN|\n/\\?$=!;&%*@#+A"
TEMPLATE = (
    "{% if tools %}<|user|>{% for t in tools %}{{ t.function.name }} {% endfor %}<|end|>"
    "{% endif %}"
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}<|assistant|>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<|call|>{{ c.function | tojson }}<|done|>{% endfor %}<|end|>"
    "{% elif m.role == 'tool' %}<|tool|>{{ m.content }}<|end|>"
    "{% else %}<|user|>{{ m.content }}<|end|>{% endif %}"
    "{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = (*demo_task.SPECIAL, "<|tool|>")
MARKS = ("<|call|>", "<|done|>")
"""Tokens that are no special ones: they are in the text of an answer."""
RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open": "<|call|>",
            "close_pattern": "<\\|done\\|>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": "<\\|end\\|>", "content": "text"},
    },
}
TOOLS = '''
import time


def smallest(digits: str) -> str:
    """
    Says which digit is the smallest.

    Args:
        digits: Some digits.
    """
    print("not an answer")
    return min(digits)


def arrange(digits: str) -> str:
    """
    Sorts digits.

    Args:
        digits: Some digits.
    """
    return "".join(sorted(digits))


def wait(seconds: float) -> str:
    """
    Takes its time.

    Args:
        seconds: How long.
    """
    time.sleep(seconds)
    return "done"


def undescribed(digits):
    return digits
'''


def write_base(directory: Path) -> Path:
    """A model of the demo's shape with random weights for this vocabulary."""
    vocabulary = [*SPECIAL, *MARKS, *dict.fromkeys(CHARACTERS)]
    demo_task.write_base(directory)
    config = json.loads((directory / "config.json").read_text())
    config |= {"vocab_size": len(vocabulary), "max_position_embeddings": 256}
    (directory / "config.json").write_text(json.dumps(config))
    demo_task._write_safetensors(
        directory / "model.safetensors", demo_task._shapes(len(vocabulary)), 0
    )
    demo_task.write_tokenizer(directory)
    tokenizer = json.loads((directory / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {token: at for at, token in enumerate(vocabulary)}
    one = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] = [
        {**one, "id": at, "content": token, "special": token in SPECIAL}
        for at, token in enumerate([*SPECIAL, *MARKS])
    ]
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = json.loads((directory / "tokenizer_config.json").read_text())
    settings |= {"response_template": RESPONSE, "model_max_length": 256}
    settings["additional_special_tokens"] = [token for token in SPECIAL if token > "<|f"]
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    return directory


def call(name: str, **arguments: object) -> str:
    """As the template writes it."""
    return f"<|call|>{json.dumps({'name': name, 'arguments': arguments})}<|done|>"
