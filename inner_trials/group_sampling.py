"""Samples completions with transformers, each from random numbers of its own.

What a completion says depends on its prompt, the weights and its own numbers, but for rounding,
and never on what it is sampled beside. So prompts may be put into batches by length, a group may
share the computation of its prompt, and completions that take long may go on in a batch of their
own, and yet the same completions reach the learner: as many as were asked for, in their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


@dataclass(slots=True)
class Writing:
    """One completion while it is written."""

    prompt: list[int]
    draws: list[float]
    """One number from 0 to 1 for each of its tokens."""
    said: list[int] = field(default_factory=list)
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    buckets: int = 1
    straggler_tokens: int = 0
    share_prefix: bool = False


class GroupSampler:
    def __init__(self, settings: Any, *, ends: Sequence[int], pad: int, batching: Batching):
        """`settings` is a transformers GenerationConfig."""
        self._processors = processors(settings)
        self._ends = frozenset(ends)
        self._pad = pad
        self._batching = batching
        self.stragglers = 0
        """Of the latest call: completions that went on together."""

    def sample(self, model: Any, prompts: Sequence[list[int]], room: int) -> list[list[int]]:
        """A completion to each prompt, of at most `room` tokens, up to the one that ends it.

        Random numbers are torch's, drawn once for all: `seeding` and checkpoints keep them.
        """
        draws = torch.rand(len(prompts), room, dtype=torch.float64).tolist()
        everyone = [Writing(list(p), d) for p, d in zip(prompts, draws, strict=True)]
        until = self._batching.straggler_tokens
        until = until if 0 < until < room else room
        with torch.no_grad():
            for bucket in in_buckets(everyone, self._batching.buckets):
                self._write(model, bucket, until)
            late = [one for one in everyone if not one.is_over and len(one.said) < room]
            self.stragglers = len(late)
            if late:
                self._write(model, late, room)
        return [one.said for one in everyone]

    def _write(self, model: Any, writing: list[Writing], until: int) -> None:
        """Go on with these, in one batch, which shrinks as they end."""
        batch = self._begin(model, writing)
        while True:
            self._choose(batch)
            batch.keep_if_fewer([not one.is_over for one in batch.writing])
            going = [one for one in batch.writing if not one.is_over]
            if not going or len(going[0].said) >= until:
                return
            batch.step(model, self._pad)

    def _begin(self, model: Any, writing: list[Writing]) -> "Batch":
        contexts = [tuple(one.prompt + one.said) for one in writing]
        if self._batching.share_prefix:
            distinct = list(dict.fromkeys(contexts))
            numbers = {context: number for number, context in enumerate(distinct)}
        else:
            distinct, numbers = contexts, {}
        width = max(map(len, distinct))
        device = model.device
        ids = torch.full((len(distinct), width), self._pad)
        mask = torch.zeros_like(ids)
        for line, context in enumerate(distinct):
            ids[line, width - len(context) :] = torch.tensor(context)
            mask[line, width - len(context) :] = 1
        ids, mask = ids.to(device), mask.to(device)
        out = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
        )
        batch = Batch(writing, ids, mask, out.past_key_values, out.logits[:, -1])
        if len(distinct) < len(writing):
            batch.select([numbers[context] for context in contexts], writing)
        return batch

    def _choose(self, batch: "Batch") -> None:
        """The next token of each, by inverting the distribution at the number drawn for it."""
        # In a row's padding stands its first token, so that no penalty depends on the batch.
        first = batch.mask.argmax(dim=1, keepdim=True)
        seen = torch.where(batch.mask.bool(), batch.ids, batch.ids.gather(1, first))
        scores = self._processors(seen, batch.logits.float())
        mass = scores.double().softmax(dim=-1).cumsum(dim=-1)
        draws = [one.draws[len(one.said)] for one in batch.writing if not one.is_over]
        rows = [line for line, one in enumerate(batch.writing) if not one.is_over]
        mass = mass[rows]
        points = torch.tensor(draws, dtype=torch.float64, device=mass.device).unsqueeze(1)
        at = torch.searchsorted(mass, points * mass[:, -1:], right=True).clamp(
            max=mass.shape[1] - 1
        )
        for line, token in zip(rows, at.squeeze(1).tolist(), strict=True):
            one = batch.writing[line]
            one.said.append(token)
            one.is_over = token in self._ends


@dataclass(slots=True)
class Batch:
    writing: list[Writing]
    ids: torch.Tensor
    mask: torch.Tensor
    cache: Any
    logits: torch.Tensor

    def select(self, lines: list[int], writing: list[Writing]) -> None:
        """Go on with these lines; one may come several times."""
        index = torch.tensor(lines, device=self.ids.device)
        self.cache.batch_select_indices(index)
        self.ids, self.mask, self.logits = self.ids[index], self.mask[index], self.logits[index]
        self.writing = writing

    def keep_if_fewer(self, wanted: list[bool]) -> None:
        """Drop the lines that are done once they are half of all: each time costs a copy."""
        lines = [line for line, is_wanted in enumerate(wanted) if is_wanted]
        if lines and 2 * len(lines) <= len(wanted):
            self.select(lines, [self.writing[line] for line in lines])

    def step(self, model: Any, pad: int) -> None:
        """Read the tokens just chosen; what stands for one that is over is never looked at."""
        device = self.ids.device
        chosen = [pad if one.is_over else one.said[-1] for one in self.writing]
        token = torch.tensor(chosen, device=device).unsqueeze(1)
        self.ids = torch.cat([self.ids, token], dim=1)
        self.mask = torch.cat([self.mask, torch.ones_like(token)], dim=1)
        out = model(
            input_ids=token,
            attention_mask=self.mask,
            position_ids=self.mask.sum(dim=1, keepdim=True) - 1,
            past_key_values=self.cache,
            use_cache=True,
        )
        self.cache, self.logits = out.past_key_values, out.logits[:, -1]


def in_buckets(writing: Sequence[Writing], count: int) -> list[list[Writing]]:
    """As many batches of about the same size, shortest prompts first; a group stays together."""
    groups: dict[tuple[int, ...], list[Writing]] = {}
    for one in writing:
        groups.setdefault(tuple(one.prompt), []).append(one)
    buckets: list[list[Writing]] = [[]]
    size = len(writing) / count
    for _, group in sorted(groups.items(), key=lambda item: len(item[0])):
        if buckets[-1] and len(buckets[-1]) + len(group) / 2 > size and len(buckets) < count:
            buckets.append([])
        buckets[-1] += group
    return buckets


def processors(settings: Any) -> LogitsProcessorList:
    """What transformers' `generate` does to logits before it samples, in its order."""
    found = LogitsProcessorList()
    if settings.repetition_penalty not in (None, 1.0):
        found.append(RepetitionPenaltyLogitsProcessor(penalty=settings.repetition_penalty))
    if settings.temperature not in (None, 1.0):
        found.append(TemperatureLogitsWarper(settings.temperature))
    if settings.top_k:
        found.append(TopKLogitsWarper(top_k=settings.top_k))
    if settings.top_p is not None and settings.top_p < 1.0:
        found.append(TopPLogitsWarper(top_p=settings.top_p))
    if settings.min_p:
        found.append(MinPLogitsWarper(min_p=settings.min_p))
    return found
