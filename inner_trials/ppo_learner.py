"""The learner of PPO: a policy with a value head, its samples, and its clipped updates."""

import contextlib
import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import GenerationConfig, get_scheduler

from inner_trials import failures, policy_math
from inner_trials.ppo_settings import Settings
from inner_trials.scoring import until_end

Tensor = Any


@dataclass(slots=True)
class Batch:
    """Completions of one policy, padded: prompts on the left, completions on the right."""

    ids: Tensor
    attention: Tensor
    mask: Tensor
    """(completions, tokens): which tokens of the completions there are."""
    logprobs: Tensor
    values: Tensor
    reference: Tensor | None
    advantages: Tensor
    returns: Tensor

    def part(self, rows: Tensor) -> "Batch":
        fields = {name: getattr(self, name) for name in self.__slots__}
        return Batch(**{n: None if v is None else v[rows] for n, v in fields.items()})


class Learner:
    def __init__(self, model: Any, settings: Settings, *, pad: int, ends: Sequence[int]) -> None:
        """`model` may have an adapter, which then is what is trained beside the value head."""
        self.model = model
        self.pad = pad
        self._settings, self._ends = settings, list(ends)
        self._has_adapter = settings.parameterization != "full"
        self._reference = None
        if settings.kl_coef and not self._has_adapter:
            self._reference = copy.deepcopy(model).eval().requires_grad_(requires_grad=False)
        hidden = model.config.get_text_config().hidden_size
        # Zero: the first advantages are the rewards themselves.
        self.head = torch.nn.Linear(hidden, 1, device=model.device, dtype=torch.float32)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        trained = [*self.trained().values(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(
            trained, lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self.scheduler = get_scheduler(
            settings.lr_scheduler_type,
            self.optimizer,
            num_warmup_steps=settings.warmup_steps,
            num_training_steps=settings.max_steps,
        )

    def trained(self) -> dict[str, Any]:
        return {n: p for n, p in self.model.named_parameters() if p.requires_grad}

    def state(self) -> dict[str, Any]:
        """All that the next update depends on, random numbers included."""
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return {
            "weights": {name: tensor.detach() for name, tensor in self.trained().items()},
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": torch.get_rng_state(),
            "random_cuda": cuda,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        with torch.no_grad():
            for name, tensor in self.trained().items():
                tensor.copy_(state["weights"][name])
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["random"])
        if torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["random_cuda"])

    def sample(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        """A completion of each prompt, up to and with the token that ended it."""
        settings = self._settings
        width = max(map(len, prompts))
        ids = torch.tensor([[self.pad] * (width - len(p)) + list(p) for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        config = GenerationConfig(
            do_sample=True,
            temperature=settings.temperature,
            top_p=settings.top_p,
            top_k=settings.top_k,
            min_p=settings.min_p or None,
            repetition_penalty=settings.repetition_penalty,
            max_new_tokens=settings.max_completion_length,
            eos_token_id=self._ends,
            pad_token_id=self.pad,
        )
        self.model.eval()
        with torch.no_grad(), self._autocast():
            out = self.model.generate(
                input_ids=ids.to(self.model.device),
                attention_mask=mask.to(self.model.device),
                generation_config=config,
            )
        return [until_end(tokens, self._ends) for tokens in out[:, width:].tolist()]

    def judge(
        self,
        prompts: Sequence[Sequence[int]],
        completions: Sequence[Sequence[int]],
        scores: Sequence[float],
    ) -> Batch:
        """What the policy that sampled thinks of its completions, and what they were worth: the
        score at the end, less at each token what it costs to be far from the reference."""
        settings = self._settings
        before, after = max(map(len, prompts)), max(map(len, completions))
        ids, attention, mask = [], [], []
        for prompt, answer in zip(prompts, completions, strict=True):
            left, right = before - len(prompt), after - len(answer)
            ids.append([self.pad] * left + [*prompt, *answer] + [self.pad] * right)
            attention.append([0] * left + [1] * (len(prompt) + len(answer)) + [0] * right)
            mask.append([1] * len(answer) + [0] * right)
        device = self.model.device
        empty = torch.zeros(len(ids), after, device=device)
        batch = Batch(
            ids=torch.tensor(ids, device=device),
            attention=torch.tensor(attention, device=device),
            mask=torch.tensor(mask, device=device),
            logprobs=empty,
            values=empty,
            reference=None,
            advantages=empty,
            returns=empty,
        )
        self.model.eval()
        with torch.no_grad():
            found = [self._forward(self.model, batch.part(rows)) for rows in self._chunks(batch)]
            batch.logprobs, _, batch.values = (
                torch.cat(part) for part in zip(*found, strict=True)
            )
            batch.reference = self._reference_logprobs(batch)
        rewards = torch.zeros_like(batch.values)
        if batch.reference is not None:
            distance = policy_math.kl_estimates(batch.logprobs, batch.reference, "k1")
            rewards -= settings.kl_coef * distance * batch.mask
        last = batch.mask.sum(dim=1) - 1
        rewards[torch.arange(len(ids)), last] += torch.tensor(scores, device=device)
        batch.advantages, batch.returns = policy_math.gae(
            rewards,
            batch.values,
            batch.mask,
            gamma=settings.gamma,
            decay=settings.gae_lambda,
        )
        return batch

    def _reference_logprobs(self, batch: Batch) -> Tensor | None:
        if self._has_adapter:
            with self.model.disable_adapter():
                parts = [
                    self._forward(self.model, batch.part(rows)) for rows in self._chunks(batch)
                ]
        elif self._reference is not None:
            parts = [
                self._forward(self._reference, batch.part(rows)) for rows in self._chunks(batch)
            ]
        else:
            return None
        return torch.cat([part[0] for part in parts])

    def _chunks(self, batch: Batch) -> Iterator[Tensor]:
        yield from torch.arange(len(batch.ids)).split(self._settings.per_device_train_batch_size)

    def _forward(self, model: Any, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities of the completions' tokens, entropies and values before each."""
        length = batch.mask.shape[1]
        positions = (batch.attention.cumsum(dim=1) - 1).clamp(min=0)
        with self._autocast():
            out = model(
                input_ids=batch.ids,
                attention_mask=batch.attention,
                position_ids=positions,
                output_hidden_states=True,
                logits_to_keep=length + 1,
                use_cache=False,
            )
        logits = out.logits[:, -length - 1 : -1].float() / self._settings.temperature
        scores = torch.log_softmax(logits, dim=-1)
        chosen = scores.gather(-1, batch.ids[:, -length:].unsqueeze(-1)).squeeze(-1)
        entropies = -(scores.exp() * scores).sum(dim=-1)
        values = self.head(out.hidden_states[-1][:, -length - 1 : -1].float()).squeeze(-1)
        return chosen * batch.mask, entropies, values * batch.mask

    def update(self, batch: Batch, step: int) -> dict[str, float]:
        """Several passes over the batch in shuffled parts; the means of what was seen."""
        settings = self._settings
        advantages = policy_math.whitened(batch.advantages, batch.mask)
        batch.advantages = advantages if settings.whiten_advantages else batch.advantages
        seen: dict[str, list[float]] = {}
        self.model.train()
        size = settings.per_device_train_batch_size * settings.gradient_accumulation_steps
        for _ in range(settings.epochs):
            for rows in torch.randperm(len(batch.ids)).split(size):
                self._step(batch.part(rows), seen)
            kl = seen["kl_of_updates"][-1]
            if settings.target_kl is not None and kl > settings.target_kl:
                break
        self.scheduler.step()
        means = {name: sum(values) / len(values) for name, values in seen.items()}
        if not all(map(_is_finite, means.values())):
            raise failures.not_finite("train/loss", means["loss"], step)
        return {**means, "importance_ratio_max": max(seen["importance_ratio_max"])}

    def _step(self, batch: Batch, seen: dict[str, list[float]]) -> None:
        tokens = batch.mask.sum()
        totals: dict[str, float] = {}
        for rows in self._chunks(batch):
            part = batch.part(rows)
            share = part.mask.sum() / tokens
            loss, values = self._loss(part)
            (loss * share).backward()
            for name, value in values.items():
                if name == "importance_ratio_max":
                    totals[name] = max(totals.get(name, 0.0), value)
                else:
                    totals[name] = totals.get(name, 0.0) + value * float(share)
        trained = [*self.trained().values(), *self.head.parameters()]
        limit = self._settings.max_grad_norm or float("inf")
        totals["grad_norm"] = float(torch.nn.utils.clip_grad_norm_(trained, limit))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for name, value in totals.items():
            seen.setdefault(name, []).append(value)

    def _loss(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        settings, mask = self._settings, batch.mask
        logprobs, entropies, values = self._forward(self.model, batch)
        ratios = policy_math.token_ratios(logprobs, batch.logprobs)
        clips = {"low": settings.epsilon, "high": settings.epsilon_high or settings.epsilon}
        mean = functools.partial(policy_math.masked_mean, mask=mask)
        policy_loss = mean(policy_math.clipped_losses(ratios, batch.advantages, **clips))
        value_loss = mean(
            policy_math.value_losses(values, batch.values, batch.returns, settings.value_clip)
        )
        entropy = mean(entropies)
        loss = policy_loss + settings.value_weight * value_loss - settings.entropy_coef * entropy
        with torch.no_grad():
            kl = mean(policy_math.kl_estimates(batch.logprobs, logprobs, "k3"))
            clipped = policy_math.clip_fraction(ratios, batch.advantages, mask, **clips)
            measured: Mapping[str, Tensor] = {
                "loss": loss,
                "policy_loss": policy_loss,
                "value_loss": value_loss,
                "entropy": entropy,
                "kl_of_updates": kl,
                "clip_fraction": clipped,
                "importance_ratio_mean": mean(ratios),
                "importance_ratio_max": (ratios * mask).max(),
            }
        return loss, {name: float(value) for name, value in measured.items()}

    def _autocast(self) -> Any:
        device, precision = self.model.device.type, self._settings.precision
        if precision == "auto":
            has_bf16 = device != "cpu" and torch.cuda.is_bf16_supported()
            precision = "bf16" if has_bf16 else "fp32"
        if precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(device, dtype=torch.bfloat16)


def _is_finite(value: float) -> bool:
    return value - value == 0.0
