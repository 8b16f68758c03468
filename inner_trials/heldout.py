"""What an online program really learns: greedy answers to held-out prompts, judged by a verifier.

The optional input `heldout` has rows like `train`. A proxy (the reward that is trained on) that
keeps rising while the held-out value falls from its best is over-optimised:
`guard/over_optimised` is how far it has fallen.
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Final

from transformers import (
    GenerationConfig,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from inner_trials import reporting
from inner_trials.prompts import Prompt
from inner_trials.scoring import Judge, until_end

HELDOUT_PROMPTS: Final = 256
"""The first so many are used: it is a guard, not an evaluation."""
BATCH: Final = 64


class HeldOut(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Measures before the first step, every so many steps, and at the end."""

    def __init__(
        self,
        prompts: Sequence[Prompt],
        encoded: Sequence[Sequence[int]],
        judge: Judge,
        tokenizer: Any,
        *,
        proxy: Callable[[], float | None],
        score: Callable[[Sequence[Any], Sequence[str]], Sequence[float]] | None,
        max_new_tokens: int,
        every: int,
    ) -> None:
        """`proxy` is the latest training reward; `score`, where the reward is learned, its model,
        which then judges the same held-out answers."""
        self._prompts = list(prompts[:HELDOUT_PROMPTS])
        self._encoded = list(encoded[:HELDOUT_PROMPTS])
        self._judge, self._tokenizer = judge, tokenizer
        self._proxy, self._score = proxy, score
        self._max_new_tokens, self._every = max_new_tokens, every
        self.best: tuple[float, float] | None = None
        """(held-out value, proxy then), kept in checkpoints."""
        self.on_values: Callable[[int, dict[str, float]], None] = lambda step, values: None

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **_: Any,
    ) -> None:
        is_last = state.global_step >= state.max_steps
        if is_last or (self._every and state.global_step % self._every == 0):
            self.measure(model, state.global_step)

    def measure(self, model: Any, step: int) -> dict[str, float]:
        answers = self._answers(model)
        texts = [self._tokenizer.decode(ids, skip_special_tokens=True) for ids in answers]
        fields = [prompt.fields for prompt in self._prompts]
        verdicts = self._judge.verdicts(texts, answers, fields)
        values = {
            "heldout/reward": fmean(verdict.reward for verdict in verdicts),
            "heldout/well_formed": fmean(verdict.well_formed for verdict in verdicts),
            "heldout/length": fmean(map(len, answers)),
        }
        proxy = self._proxy()
        if self._score is not None:
            proxy = fmean(self._score([p.prompt for p in self._prompts], texts))
            values["heldout/proxy"] = proxy
        if proxy is not None:
            values["guard/over_optimised"] = self._over_optimised(values["heldout/reward"], proxy)
        reporting.report(step, values)
        self.on_values(step, values)
        return values

    def _over_optimised(self, value: float, proxy: float) -> float:
        if self.best is None or value >= self.best[0]:
            self.best = (value, proxy)
        best, proxy_then = self.best
        return best - value if proxy >= proxy_then else 0.0

    def _answers(self, model: Any) -> list[list[int]]:
        """Greedy completions, each up to the token that ended it."""
        import torch

        was_training = model.training
        model.eval()
        settings = GenerationConfig(
            max_new_tokens=self._max_new_tokens,
            do_sample=False,
            eos_token_id=self._judge.ends,
            pad_token_id=self._tokenizer.pad_token_id,
        )
        order = sorted(range(len(self._encoded)), key=lambda index: -len(self._encoded[index]))
        answers: list[list[int]] = [[] for _ in order]
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            width = max(len(self._encoded[index]) for index in batch)
            ids = torch.full((len(batch), width), self._tokenizer.pad_token_id)
            mask = torch.zeros_like(ids)
            for line, index in enumerate(batch):
                tokens = torch.tensor(self._encoded[index])
                ids[line, width - len(tokens) :] = tokens
                mask[line, width - len(tokens) :] = 1
            with torch.no_grad():
                out = model.generate(
                    input_ids=ids.to(model.device),
                    attention_mask=mask.to(model.device),
                    generation_config=settings,
                )
            for index, tokens in zip(batch, out[:, width:].tolist(), strict=True):
                answers[index] = until_end(tokens, self._judge.ends)
        model.train(was_training)
        return answers
