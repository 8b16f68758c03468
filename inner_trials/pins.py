"""Digests of a model's tokenizer and chat template, and the refusal of ones that changed.

Standard library only. A digest is of what the file means, not of its bytes: white space, and the
padding and truncation that a library may write into tokenizer.json, do not count.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final, TypedDict

from inner_trials.models import ModelError

PINS_FILE: Final = "pins.json"
"""Written beside every model a program saves, and checked when that model is a base again."""
_NO_MEANING: Final = ("padding", "truncation")
_SPECIAL: Final = ("bos_token", "eos_token", "unk_token")


class Pins(TypedDict):
    tokenizer: str
    """sha256 of vocabulary, rules and special tokens."""
    chat_template: str | None
    """sha256 of the template's text; None where there is none."""


def read_pins(directory: Path) -> Pins:
    """The digests of the tokenizer and the chat template in a model's directory.

    Raises:
        ModelError: its tokenizer files cannot be read.
    """
    settings = _json(directory / "tokenizer_config.json")
    document: dict[str, Any] = {name: _token(settings.get(name)) for name in _SPECIAL}
    path = directory / "tokenizer.json"
    if path.is_file():
        rules = _json(path)
        document["rules"] = {k: v for k, v in rules.items() if k not in _NO_MEANING}
    else:
        older = [
            file
            for file in sorted(directory.glob("*"))
            if file.suffix == ".model" or file.name in ("vocab.json", "merges.txt", "vocab.txt")
        ]
        if not older:
            # transformers would make an empty one, without a word.
            raise ModelError(
                f"{directory.name}/tokenizer.json: no such file; save the tokenizer beside the"
                " model with save_pretrained"
            )
        document |= {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in older}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    template = _template(directory, settings)
    return {
        "tokenizer": _sha256(text),
        "chat_template": None if template is None else _sha256(template),
    }


def verify_pins(directory: Path, *, tokenizer: str = "", chat_template: str = "") -> Pins:
    """The directory's digests, once they are the ones a study pinned (empty: not pinned) and the
    ones that were written beside the model when it was saved.

    Raises:
        ModelError: one changed; the text says which, from what to what.
    """
    found = read_pins(directory)
    wanted: dict[str, str | None] = {}
    saved = directory / PINS_FILE
    if saved.is_file():
        wanted |= {k: v for k, v in _json(saved).items() if k in found}
    wanted |= {"tokenizer": tokenizer} if tokenizer else {}
    wanted |= {"chat_template": chat_template} if chat_template else {}
    for name, digest in wanted.items():
        actual = found["tokenizer"] if name == "tokenizer" else found["chat_template"]
        if actual != digest:
            pinned = (
                "when the model was saved"
                if name not in _given(tokenizer, chat_template)
                else f"in options.{name}_sha256"
            )
            raise ModelError(
                f"{directory.name}: its {name.replace('_', ' ')} is {_short(actual)}, but"
                f" {_short(digest)} was pinned {pinned}; put the old one back, or pin the new one"
            )
    return found


def check_vocabulary(directory: Path) -> None:
    """The tokenizer must name an end token, and the model must have a row for every ordinary
    token and for the end. (Added tokens that no row of data holds may lie beyond.)

    Raises:
        ModelError: it does not.
    """
    settings = _json(directory / "tokenizer_config.json")
    end = _token(settings.get("eos_token"))
    if end is None:
        raise ModelError(
            f"{directory.name}/tokenizer_config.json: eos_token is missing; name the token that"
            " ends an answer"
        )
    path, rows = directory / "tokenizer.json", _embedded_tokens(directory)
    if rows is None or not path.is_file():
        return
    rules = _json(path)
    try:
        vocabulary = rules["model"]["vocab"]
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        added = {token["content"]: token["id"] for token in rules.get("added_tokens") or []}
        largest = max([*ids, added.get(end, 0)], default=0)
    except (KeyError, TypeError, AttributeError):
        raise ModelError(f"{directory.name}/tokenizer.json: is not a tokenizer's file") from None
    if largest >= rows:
        raise ModelError(
            f"{directory.name}: its tokenizer has tokens up to number {largest}, but the model"
            f" knows {rows} (vocab_size in config.json); put the model's own tokenizer beside it"
        )


def _embedded_tokens(directory: Path) -> int | None:
    """How many tokens the model knows; None where its config does not say."""
    config = _json(directory / "config.json")
    inner = config.get("text_config")
    value = config.get("vocab_size", inner.get("vocab_size") if isinstance(inner, dict) else None)
    return value if isinstance(value, int) else None


def write_pins(directory: Path) -> Pins:
    """Record the digests of a model just saved beside it."""
    found = read_pins(directory)
    (directory / PINS_FILE).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return found


def _given(tokenizer: str, chat_template: str) -> set[str]:
    both = {"tokenizer": tokenizer, "chat_template": chat_template}
    return {name for name, digest in both.items() if digest}


def _short(digest: str | None) -> str:
    return "none" if digest is None else f"{digest[:16]}…"


def _template(directory: Path, settings: dict[str, Any]) -> str | None:
    path = directory / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    inside = settings.get("chat_template")
    if inside is None or isinstance(inside, str):
        return None if inside is None else inside.strip()
    return json.dumps(inside, sort_keys=True)


def _token(token: Any) -> str | None:
    return token.get("content") if isinstance(token, dict) else token


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{path.parent.name}/{path.name}: no such file; save the tokenizer beside the model"
            " with save_pretrained"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path.parent.name}/{path.name}: cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ModelError(f"{path.parent.name}/{path.name}: expected a JSON object")
    return value


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
