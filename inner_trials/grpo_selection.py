"""A GRPO trainer that chooses its prompts (prompt_choice.py) and may sample others in the place
of groups that teach nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inner_trials.grpo_trainer import RecordingTrainer
from inner_trials.prompt_choice import PromptChoice


@dataclass(slots=True)
class Attempt:
    """One group that was sampled."""

    number: int
    """By the order in which the choice has seen them."""
    examples: list[dict[str, Any]]
    sampled: tuple[Any, ...]
    """What TRL's `_generate` returned, for this group alone."""
    rewards: torch.Tensor
    """Completions by components."""
    teaches: bool


class SelectingTrainer(RecordingTrainer):
    """The data loader says how many prompts, `choice` which. An update is always made from as
    many groups: once `rounds` are over, those without a difference fill it up, and all that was
    sampled is counted, whether it was learned from or not."""

    choice: PromptChoice

    def __init__(self, *args: Any, choice: PromptChoice, rounds: int, **options: Any) -> None:
        self._rounds = rounds
        self._seen = 0
        self._rewards: torch.Tensor | None = None
        super().__init__(*args, **options)
        self.choice = choice
        self._by_row = {example["row"]: example for example in self.train_dataset}

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        self._seen = 0
        # The same list all along: what is learned is only known once it was sampled.
        self._batch = self._examples(self.choice.draw(len(inputs) // self.num_generations))
        output = super()._generate_and_score_completions(self._batch)
        for name, value in self.choice.end_generation().items():
            self._metrics["train"][f"selection/{name}"].append(value)
        return output

    def _generate(self, prompts: list[Any]) -> Any:
        size = self.num_generations
        wanted = len(prompts) // size
        rows = [example["row"] for example in self._batch[::size]]
        kept: list[Attempt] = []
        spare: list[Attempt] = []
        for turn in range(self._rounds + 1):
            if turn:
                rows = self.choice.draw(wanted - len(kept))
            for attempt in self._attempts(rows):
                (kept if attempt.teaches else spare).append(attempt)
            if len(kept) == wanted:
                break
        chosen = sorted([*kept, *spare][:wanted], key=lambda attempt: attempt.number)
        self.choice.learn([attempt.number for attempt in chosen])
        self._batch[:] = [example for attempt in chosen for example in attempt.examples]
        prompts[:] = [example["prompt"] for example in self._batch]
        self.rows = [example["row"] for example in self._batch]
        self._rewards = torch.cat([attempt.rewards for attempt in chosen])
        self._sampled = _joined([attempt.sampled for attempt in chosen])
        return self._sampled

    def _calculate_rewards(self, *args: Any) -> Any:
        """They were calculated to choose by them; a judge is not asked twice."""
        if self._rewards is None:
            return super()._calculate_rewards(*args)
        self._components, self._rewards = self._rewards, None
        return self._components

    def _examples(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        return [dict(self._by_row[row]) for row in rows for _ in range(self.num_generations)]

    def _attempts(self, rows: Sequence[int]) -> list[Attempt]:
        """Sample a group for each prompt, and judge them."""
        examples = self._examples(rows)
        prompts = [example["prompt"] for example in examples]
        self.rows = [example["row"] for example in examples]
        sampled = super()._generate(prompts)
        extra = sampled[5]
        judged = [
            {**example, **{name: values[at] for name, values in extra.items()}}
            for at, example in enumerate(examples)
        ]
        rewards = super()._calculate_rewards(judged, prompts, sampled[3], sampled[1])
        totals = (rewards * self.reward_weights.to(rewards.device)).nansum(dim=1).tolist()
        verdicts = rewards[:, 0].nan_to_num().tolist()
        attempts = []
        for at, row in enumerate(rows):
            part = slice(at * self.num_generations, (at + 1) * self.num_generations)
            teaches = self.choice.see(row, totals[part], verdicts[part])
            found = (self._seen, examples[part], _part(sampled, part), rewards[part], teaches)
            attempts.append(Attempt(*found))
            self._seen += 1
        return attempts


def _part(sampled: Sequence[Any], part: slice) -> tuple[Any, ...]:
    return tuple(
        {name: values[part] for name, values in value.items()}
        if isinstance(value, dict)
        else value and value[part]
        for value in sampled
    )


def _joined(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Of lists, of dictionaries of lists, and of None where there is nothing."""
    joined: list[Any] = []
    for values in zip(*parts, strict=True):
        first = values[0]
        if isinstance(first, dict):
            names = first
            joined.append({name: [x for value in values for x in value[name]] for name in names})
        else:
            joined.append(first and [x for value in values for x in value])
    return tuple(joined)
