"""TRL's GRPO trainer with eyes: what it samples is recorded, and what it does is measured."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from trl import GRPOTrainer

from inner_trials import health
from inner_trials.actors import AdapterActors
from inner_trials.group_sampling import Batching, GroupSampler
from inner_trials.length_buckets import by_length
from inner_trials.prompt_choice import PromptChoice
from inner_trials.rollouts import Rollout, RolloutWriter
from inner_trials.scoring import until_end
from inner_trials.shared_prefix import token_scores


class RecordingTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL is not typed
    """The loss, the rewards and the random numbers are TRL's own; nothing here changes them.

    `revisions` are the prompts' digests by the column `row`; `has_ended` says of a completion's
    tokens whether the model ended it; `actors` sample in its place; `batching`, where it is given,
    samples and learns in other batches, but the same completions.
    """

    _buffered_inputs: Any
    choice: PromptChoice | None = None
    """Which prompts are sampled, where not all are (grpo_selection.py)."""

    def __init__(
        self,
        *args: Any,
        writer: RolloutWriter | None,
        revisions: Sequence[str],
        has_ended: Callable[[Sequence[int]], bool],
        actors: AdapterActors | None = None,
        batching: Batching | None = None,
        **options: Any,
    ) -> None:
        self._batching = batching
        self._sampler: GroupSampler | None = None
        self._writer = writer
        self._revisions = revisions
        self._has_ended = has_ended
        self._rows: list[Rollout] = []
        self._unseen: set[int] = set()
        """Rows whose log-probabilities the trainer has yet to compute."""
        self.groups = 0
        self._ratio_max = 0.0
        self.actors = actors
        super().__init__(*args, **options)
        if actors is not None:
            actors.attach(self)
        if batching is not None:
            self._sampler = GroupSampler(
                self.generation_config,
                ends=self.eos_token_ids,
                pad=self.processing_class.pad_token_id,
                batching=batching,
            )

    def _generate(self, prompts: list[Any]) -> Any:
        self._sampled = super()._generate(prompts)
        if self.actors is not None:
            self.actors.measure(self._metrics["train"])
        return self._sampled

    def _generate_single_turn(self, prompt_ids: list[list[int]], *args: Any, **more: Any) -> Any:
        if self._sampler is None:
            return super()._generate_single_turn(prompt_ids, *args, **more)
        return self.continuations(prompt_ids, self.max_completion_length), None

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        had = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is had or not self.model.training:
            return inputs
        sampled = sum(len(batch["advantages"]) for batch in self._buffered_inputs)
        if self._batching is not None and self._batching.buckets > 1:
            self._buffered_inputs = by_length(
                self._buffered_inputs, self.args.gradient_accumulation_steps
            )
        learned = sum(len(batch["advantages"]) for batch in self._buffered_inputs)
        self._metrics["train"]["completions_learned"].append(float(learned))
        assert learned == sampled, "batches are for speed: none of what was sampled may be lost"
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _calculate_rewards(self, *args: Any) -> Any:
        self._components = super()._calculate_rewards(*args)
        return self._components

    def _get_per_token_logps_and_entropies(self, *args: Any, **options: Any) -> Any:
        if self._batching is not None and self._batching.share_prefix:
            found = self._shared(*args, **options)
        else:
            found = super()._get_per_token_logps_and_entropies(*args, **options)
        self._logprobs = found[0].detach()
        return found

    def _shared(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,  # noqa: FBT001, FBT002  # TRL's signature
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        size = batch_size or len(input_ids)
        parts = []
        for start in range(0, len(input_ids), size):
            part = slice(start, start + size)
            with self.accelerator.autocast():
                parts.append(
                    token_scores(
                        model,
                        input_ids[part],
                        attention_mask[part],
                        keep=logits_to_keep,
                        temperature=self.temperature,
                    )
                )
        logprobs, entropies = (torch.cat(each) for each in zip(*parts, strict=True))
        return logprobs, entropies if compute_entropy else None, None

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self.rows = [example["row"] for example in inputs]
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        weights = self.reward_weights.to(self._components.device)
        everyone = (self._components * weights).nansum(dim=1).tolist()
        variance = health.variance_in_groups(everyone, self.num_generations)
        own = self._own_slice(len(inputs))
        components, rewards = self._components[own], everyone[own]
        self._metrics["train"]["reward_variance_in_groups"].append(variance)
        if self._writer is not None:
            self._write_rollouts()
            # Shuffled and split with everything else, it says which row is which.
            output["rollout"] = torch.arange(len(inputs))
            self._rows = self._new_rows(inputs, output, components.tolist(), rewards)
        return output

    def continuations(self, contexts: list[list[int]], room: int) -> list[list[int]]:
        """What the policy says next to each context, sampled as all completions are."""
        if self._sampler is not None:
            return self._sampled_apart(self._sampler, contexts, room)
        width, pad = max(map(len, contexts)), self.processing_class.pad_token_id
        ids = [[pad] * (width - len(context)) + context for context in contexts]
        mask = [[0] * (width - len(context)) + [1] * len(context) for context in contexts]
        settings = copy.copy(self.generation_config)
        settings.max_new_tokens = room
        model = self.accelerator.unwrap_model(self.model)
        was_training = model.training
        model.eval()
        with torch.no_grad():
            out = model.generate(
                input_ids=torch.tensor(ids, device=model.device),
                attention_mask=torch.tensor(mask, device=model.device),
                generation_config=settings,
            )
        model.train(was_training)
        return [until_end(tokens, self.eos_token_ids) for tokens in out[:, width:].tolist()]

    def _sampled_apart(
        self, sampler: GroupSampler, contexts: list[list[int]], room: int
    ) -> list[list[int]]:
        model = self.accelerator.unwrap_model(self.model)
        was_training = model.training
        model.eval()
        said = sampler.sample(model, contexts, room)
        model.train(was_training)
        self._metrics["train"]["stragglers"].append(sampler.stragglers / len(said))
        return said

    def _own_slice(self, count: int) -> slice:
        start = self.accelerator.process_index * count
        return slice(start, start + count)

    def _new_rows(
        self,
        inputs: list[dict[str, Any]],
        output: dict[str, Any],
        components: list[list[float]],
        rewards: list[float],
    ) -> list[Rollout]:
        prompts, completions, _, _, sampler = self._sampled[:5]
        mask = output["completion_mask"]
        if "tool_mask" in output:
            mask = mask * output["tool_mask"]
        old, reference = output.get("old_per_token_logps"), output.get("ref_per_token_logps")
        self._unseen = set() if old is not None else set(range(len(inputs)))
        versions = [self.state.global_step] * len(inputs)
        if self.actors is not None and len(self.actors.sampled_at) == len(inputs):
            versions = self.actors.sampled_at  # each may be of other weights
        first = self.groups + self._own_slice(len(inputs)).start // self.num_generations
        rows = []
        for index, tokens in enumerate(completions):
            length = len(tokens)
            trainer = old[index, :length].tolist() if old is not None else []
            rows.append(
                Rollout(
                    policy_version=versions[index],
                    group=first + index // self.num_generations,
                    sample=index % self.num_generations,
                    prompt_revision=self._revisions[inputs[index]["row"]],
                    prompt_tokens=list(prompts[index]),
                    completion_tokens=list(tokens),
                    loss_mask=mask[index, :length].tolist(),
                    behaviour_source="trainer" if sampler is None else "sampler",
                    behaviour_logprobs=trainer if sampler is None else _plain(sampler[index]),
                    trainer_logprobs=trainer,
                    reference_logprobs=(
                        None if reference is None else reference[index, :length].tolist()
                    ),
                    rewards=_named(self.reward_func_names, components[index]),
                    reward=rewards[index],
                    advantage=float(output["advantages"][index]),
                    ended=self._has_ended(tokens),
                )
            )
        processes = self.accelerator.num_processes
        self.groups += processes * len(inputs) // self.num_generations
        return rows

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        loss = super()._compute_loss(model, inputs)
        with torch.no_grad():
            self._measure_ratios(inputs)
            self._fill_rows(inputs)
        return loss

    def _measure_ratios(self, inputs: dict[str, Any]) -> None:
        mask = inputs["completion_mask"].bool()
        old = inputs.get("old_per_token_logps")
        ratios = torch.exp(self._logprobs - (self._logprobs if old is None else old))[mask]
        if ratios.numel():
            self._metrics["train"]["importance_ratio_mean"].append(ratios.mean().item())
            self._ratio_max = max(self._ratio_max, ratios.max().item())

    def _fill_rows(self, inputs: dict[str, Any]) -> None:
        """Before its first update the trainer's numbers are those of the policy that sampled."""
        if not self._unseen:
            return
        for line, index in zip(self._logprobs, inputs["rollout"].tolist(), strict=True):
            row = self._rows[index]
            if index in self._unseen:
                row.trainer_logprobs = line[: len(row.completion_tokens)].tolist()
                if row.behaviour_source == "trainer":
                    row.behaviour_logprobs = row.trainer_logprobs
                self._unseen.discard(index)

    def _write_rollouts(self) -> None:
        if self._writer is not None:
            self._writer.add(self._rows)
            self._rows = []

    def close_rollouts(self) -> None:
        """Make what was sampled so far durable, with the checkpoint or model saved now."""
        self._write_rollouts()
        if self._writer is not None:
            self._writer.close_part()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            ratio = torch.tensor(self._ratio_max, device=self.accelerator.device)
            logs["importance_ratio_max"] = self.accelerator.gather(ratio).max().item()
            self._ratio_max = 0.0
            for name, over_window in (("staleness_max", max), ("rollouts_dropped", sum)):
                if values := self._metrics["train"].pop(name, None):
                    logs[name] = over_window(values)
        super().log(logs, start_time)


def _named(names: Sequence[str], values: Sequence[float]) -> dict[str, float | None]:
    return {
        name: None if math.isnan(value) else value
        for name, value in zip(names, values, strict=True)
    }


def _plain(logprobs: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in logprobs]
