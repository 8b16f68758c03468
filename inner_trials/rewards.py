"""A reward model on disk: its version, and the scores it gives.

`reward.json` beside its weights says what it is. The version is a digest of everything that
decides a score: weights, config, tokenizer and chat template. It is recomputed whenever the model
is loaded, so that a reward model that changed is refused instead of scoring something else.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from inner_trials import adapters, failures, models, pins
from inner_trials.models import ModelError

FILE: Final = "reward.json"
FORMAT: Final = 1
CLASS: Final = "ForSequenceClassification"
_IRRELEVANT: Final = ("_name_or_path", "transformers_version", "dtype")


def version_of(directory: Path) -> str:
    """The version of the reward model in a directory: 64 hexadecimal digits.

    Raises:
        ModelError: it is no reward model.
    """
    if not models.check_model(directory).architecture.endswith(CLASS):
        raise ModelError(
            f"{directory.name}: is no reward model (its architecture is not one …{CLASS}); mount"
            " what the program reward_model made"
        )
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    parts = {
        "weights": adapters.weights_digest(directory),
        "config": {k: v for k, v in config.items() if k not in _IRRELEVANT},
        **pins.read_pins(directory),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def write_description(
    directory: Path,
    *,
    base_sha256: str,
    pairs: int,
    chat: bool,
    settings: Mapping[str, object],
    metrics: Mapping[str, float],
) -> dict[str, Any]:
    """Write `reward.json` beside a model just saved."""
    description = {
        "format": FORMAT,
        "version": version_of(directory),
        "base_sha256": base_sha256,
        "pairs": pairs,
        "chat": chat,
        "settings": dict(settings),
        "metrics": dict(metrics),
    }
    (directory / FILE).write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    return description


def check_reward_model(directory: Path, *, version: str = "") -> dict[str, Any]:
    """Its description, once it is the version it says and the one that is asked for (empty: any).

    Raises:
        ModelError: it is none, or it changed since it was saved.
    """
    found = version_of(directory)
    path = directory / FILE
    description: dict[str, Any] = {"chat": True, "version": found}
    if path.is_file():
        description |= json.loads(path.read_text(encoding="utf-8"))
    for wanted, said_by in ((description["version"], FILE), (version, "the study")):
        if wanted and wanted != found:
            raise ModelError(
                f"{directory.name}: the reward model is version {found[:16]}…, but {said_by} says"
                f" {str(wanted)[:16]}…; a changed reward model is another one"
            )
    return description


class RewardModel:
    """A frozen reward model that scores answers."""

    def __init__(self, directory: Path, *, version: str = "", max_length: int = 1024) -> None:
        """Raises ModelError as `check_reward_model`, or when it cannot be loaded."""
        import torch

        self.description = check_reward_model(directory, version=version)
        self._tokenizer = models.load_tokenizer(directory)
        model = models.load_model(directory, auto_class="AutoModelForSequenceClassification")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model: Any = model.to(device).eval()
        # Where an answer ends is read from it.
        model.config.get_text_config().pad_token_id = self._tokenizer.pad_token_id
        self._max_length = min(max_length, models.context_tokens(directory) or max_length)

    @property
    def version(self) -> str:
        return str(self.description["version"])

    def score(
        self, prompts: Sequence[Any], answers: Sequence[str], *, batch_size: int = 64
    ) -> list[float]:
        """The reward of each answer to its prompt (a text, or messages), in order.

        Raises:
            NotFinite: one is no number.
        """
        import torch

        ids = [self._encode(p, a) for p, a in zip(prompts, answers, strict=True)]
        order = sorted(range(len(ids)), key=lambda index: -len(ids[index]))
        scores = [0.0] * len(ids)
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            width = max(len(ids[index]) for index in batch)
            pad = self._tokenizer.pad_token_id
            padded = [ids[index] + [pad] * (width - len(ids[index])) for index in batch]
            mask = [[1] * len(ids[index]) + [0] * (width - len(ids[index])) for index in batch]
            with torch.inference_mode():
                logits = self._model(
                    input_ids=torch.tensor(padded, device=self._model.device),
                    attention_mask=torch.tensor(mask, device=self._model.device),
                ).logits
            for index, value in zip(batch, logits[:, 0].float().tolist(), strict=True):
                scores[index] = value
        if not all(map(math.isfinite, scores)):
            raise failures.NotFinite("the reward model gave a score that is no number")
        return scores

    def _encode(self, prompt: Any, answer: str) -> list[int]:
        """As TRL's RewardTrainer writes what it trains on."""
        if self.description["chat"] and self._tokenizer.chat_template is not None:
            asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            messages = [*asked, {"role": "assistant", "content": answer}]
            ids = self._tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
        else:
            ids = self._tokenizer(prompt + answer + self._tokenizer.eos_token)["input_ids"]
        return list(ids)[: self._max_length]
