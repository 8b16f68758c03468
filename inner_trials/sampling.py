"""Samples answers from a language model with transformers: batched, seeded, resumable.

Each batch has a seed of its own, so that what was sampled before a stop needs not be again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from inner_trials import data, distributed, seeding
from inner_trials.settings import above, at_least

_SEED_STRIDE: Final = 1_000_003


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """How answers are drawn. (Without slots, so that a program's settings may extend two.)"""

    samples: int = at_least(1, default=4)
    """Answers to each prompt: the N of best-of-N."""
    temperature: float = above(0.0, default=1.0)
    top_p: float = field(default=1.0, metadata={"above": 0.0, "at_most": 1.0})
    top_k: int = at_least(0, default=0)
    """0: all tokens."""
    min_p: float = field(default=0.0, metadata={"at_least": 0.0, "at_most": 1.0})
    repetition_penalty: float = above(0.0, default=1.0)
    max_new_tokens: int = at_least(1, default=256)
    sample_batch_size: int = at_least(1, default=32)
    """Prompts at once."""


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    is_ended: bool
    """Whether the model ended it itself; one that was cut off is no answer."""
    tokens: int


def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    settings: SamplingSettings,
    *,
    chat: bool,
    seed: int,
    done: Mapping[int, Sequence[Answer]] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> dict[int, Sequence[Answer]]:
    """Answers by the index of their prompt; without those of batches not begun when asked to stop,
    and without those of batches that are another rank's to sample.

    Args:
        chat: write plain prompts as a user's message, if the tokenizer has a template.
        done: answers of an earlier call with the same prompts, settings and seed.

    Raises:
        DataError: a prompt and its answer are longer than the model has positions.
    """
    texts = [render(prompt, tokenizer, chat=chat) for prompt in prompts]
    _check_lengths(texts, tokenizer, model, settings.max_new_tokens)
    found = dict(done or {})
    rank, ranks = distributed.place()
    was_training = model.training
    model.eval()
    for number, start in enumerate(range(0, len(texts), settings.sample_batch_size)):
        batch = range(start, min(start + settings.sample_batch_size, len(texts)))
        if number % ranks != rank or all(index in found for index in batch):
            continue
        if should_stop():
            break
        seeding.seed_everything(seed * _SEED_STRIDE + number)
        answers = _generate(model, tokenizer, [texts[index] for index in batch], settings)
        found |= dict(zip(batch, answers, strict=True))
    model.train(was_training)
    return found


def render(prompt: Any, tokenizer: Any, *, chat: bool) -> str:
    """The prompt as the model reads it, ready for the answer.

    Raises:
        DataError: it is messages, and there is no template to write them with.
    """
    if tokenizer.chat_template is None or (isinstance(prompt, str) and not chat):
        if isinstance(prompt, str):
            return prompt
        raise data.DataError("train: its prompts are messages, but the base has no chat template")
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def _check_lengths(texts: Sequence[str], tokenizer: Any, model: Any, max_new_tokens: int) -> None:
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None:
        return
    lengths = [len(ids) for ids in tokenizer(list(texts))["input_ids"]]
    longest = max(range(len(lengths)), key=lengths.__getitem__)
    if lengths[longest] + max_new_tokens > positions:
        raise data.DataError(
            f"train: its longest prompt, number {longest + 1}, has {lengths[longest]} tokens,"
            f" which with max_new_tokens {max_new_tokens} is more than the base's {positions}"
            " positions; shorten one of them"
        )


def _generate(
    model: Any, tokenizer: Any, texts: Sequence[str], settings: SamplingSettings
) -> list[list[Answer]]:
    import torch
    from transformers import GenerationConfig

    end = tokenizer.eos_token_id
    encoded = tokenizer(
        list(texts),
        return_tensors="pt",
        padding=True,
        padding_side="left",
        add_special_tokens=tokenizer.chat_template is None,
        return_token_type_ids=False,
    ).to(model.device)
    config = GenerationConfig(
        do_sample=True,
        num_return_sequences=settings.samples,
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
        min_p=settings.min_p or None,
        repetition_penalty=settings.repetition_penalty,
        max_new_tokens=settings.max_new_tokens,
        eos_token_id=end,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.inference_mode():
        out = model.generate(**encoded, generation_config=config)
    given = out[:, encoded["input_ids"].shape[1] :].tolist()
    answers = []
    for ids in given:
        is_ended = end in ids
        kept = ids[: ids.index(end)] if is_ended else ids
        # Special tokens stay: an answer with a stray one is not the same without it.
        text = tokenizer.decode(kept).strip()
        answers.append(Answer(text, is_ended, len(kept)))
    step = settings.samples
    return [answers[start : start + step] for start in range(0, len(answers), step)]
