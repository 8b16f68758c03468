"""Proximal policy optimisation (Schulman et al. 2017) of a language model: full, LoRA or QLoRA.

Run as `python -P -m inner_trials.ppo`. Inputs and output as those of inner_trials.grpo. The
policy has a value head on its last hidden state; a completion's reward comes at its last token,
less at each token what its distance from the base costs; advantages are GAE's; several clipped
updates are made from each batch. inner_trials.ppo_learner is the algorithm, inner_trials.
policy_math its formulas. One process, one GPU or none; clusters run another launcher as a command.
"""

import gc
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from inner_trials import (
    adapters,
    facts,
    health,
    models,
    online,
    reporting,
    rewards,
    seeding,
    training,
    usage,
)
from inner_trials.ppo_settings import Settings, check_settings
from inner_trials.rollouts import Rollout
from inner_trials.scoring import Judge

if TYPE_CHECKING:
    from inner_trials.guards import FixedSlice
    from inner_trials.ppo_learner import Batch

Job: TypeAlias = online.Job[Settings]

STATE: Final = "learner.pt"
REPORTED: Final[Mapping[str, str]] = {
    **{name: f"train/{name}" for name in ("loss", "policy_loss", "value_loss", "grad_norm")},
    **{name: f"health/{name}" for name in ("entropy", "kl_of_updates", "clip_fraction")},
    **{f"importance_ratio_{name}": f"health/importance_ratio_{name}" for name in ("mean", "max")},
}


def prepare(document: Mapping[str, Any]) -> Job:
    """Raises training.BAD_INPUT."""
    job = online.prepare(Settings, document)
    check_settings(job.settings)
    return job


def train(job: Job) -> bool:
    run = Run(job)
    gc.freeze()
    gc.enable()
    print(f"{seeding.describe_runtime()}  rows {len(run.kept)}", flush=True)
    is_stopped = run.to_the_end()
    if run.writer is not None:
        run.writer.close_part()
    training.save_model(
        run.learner.model, run.tokenizer, job.settings, job.base, reporting.model_dir()
    )
    return is_stopped


class Run:
    """One training run, from the base or from the trial's latest checkpoint."""

    def __init__(self, job: Job) -> None:
        from inner_trials.ppo_learner import Learner

        settings = job.settings
        self.job = job
        seeding.seed_everything(job.seed)
        self.tokenizer = models.load_tokenizer(job.base)
        model = policy(job)
        self.judge = Judge(
            job.verifier,
            ends=online.end_tokens(model, self.tokenizer),
            require_end=settings.require_end,
        )
        self.asked, self.encoded = online.encode(job, job.prompts, self.tokenizer)
        self.kept = online.fitting(job, "train", self.encoded)
        self.scorer = None
        if job.reward_model is not None:
            self.scorer = rewards.RewardModel(job.reward_model, max_length=settings.max_length)
        self.writer = online.rollout_writer(job, self.judge, self.scorer)
        pad = self.tokenizer.pad_token_id
        self.learner = Learner(model, settings, pad=pad, ends=self.judge.ends)
        self.panel = health.AlarmPanel(job.alarms)
        self.tokens, self.step, self._reward = 0, 0, 0.0
        self._watch()
        if (resume := reporting.resume_dir()) is not None:
            self._load(resume)
        elif self.heldout is not None:
            self._ring(self.heldout.measure(model, 0))

    def to_the_end(self) -> bool:
        """Whether it was left early because the trial was asked to stop."""
        settings, end = self.job.settings, self.job.settings.max_steps
        reporting.report(self.step, {"run/start_up_s": usage.process_age_s()})
        facts.note("checkpoints", resumed_from=self.step or None, last_step=end, saved=[])
        while self.step < end:
            self._one_step()
            is_last = self.step >= end
            if is_last or (settings.guard_every and self.step % settings.guard_every == 0):
                self._guard()
            if is_last:
                return False
            is_asked = reporting.should_stop()
            if is_asked or (settings.save_every and self.step % settings.save_every == 0):
                reporting.save_checkpoint(self._save)
            if is_asked:
                return True
        return False

    def _one_step(self) -> None:
        began = time.monotonic()
        rows = self._rows(self.step)
        prompts = [self.encoded[row] for row in rows]
        completions = self.learner.sample(prompts)
        components = self._components(rows, completions)
        settings, weights = self.job.settings, {"well_formed": self.job.settings.format_weight}
        scores = [sum(weights.get(n, 1.0) * v for n, v in each.items()) for each in components]
        batch = self.learner.judge(prompts, completions, scores)
        self._record(rows, completions, batch, components, scores)
        found = self.learner.update(batch, self.step + 1)
        self.step += 1
        self.tokens += int(batch.attention.sum())
        if self.step % settings.report_every == 0 or self.step >= settings.max_steps:
            values = {REPORTED[name]: value for name, value in found.items() if name in REPORTED}
            values["train/tokens_per_s"] = int(batch.attention.sum()) / (time.monotonic() - began)
            self._report(values | self._measured(batch, completions, components, scores))

    def _rows(self, step: int) -> list[int]:
        """The prompts of a step: shuffled anew in each pass over the data, by the seed alone."""
        size = self.job.settings.rollout_batch_size
        numbers = range(step * size, (step + 1) * size)
        turns = {number // len(self.kept) for number in numbers}
        orders = {turn: list(self.kept) for turn in turns}
        for turn, order in orders.items():
            random.Random(f"{self.job.seed}/{turn}").shuffle(order)
        return [orders[n // len(self.kept)][n % len(self.kept)] for n in numbers]

    def _components(
        self, rows: Sequence[int], completions: Sequence[Sequence[int]]
    ) -> list[dict[str, float]]:
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in completions]
        if self.scorer is not None:
            return [
                {"learned": value}
                for value in self.scorer.score([self.asked[r] for r in rows], texts)
            ]
        fields = [self.job.prompts[row].fields for row in rows]
        return [
            {"verifier": verdict.reward, "well_formed": float(verdict.well_formed)}
            for verdict in self.judge.verdicts(texts, completions, fields)
        ]

    def _measured(
        self,
        batch: "Batch",
        completions: Sequence[Sequence[int]],
        components: Sequence[Mapping[str, float]],
        scores: Sequence[float],
    ) -> dict[str, float]:
        from inner_trials import policy_math

        ended = [self.judge.has_ended(ids) for ids in completions]
        self._reward = fmean(scores)
        values = {
            "train/reward": self._reward,
            "train/learning_rate": float(self.learner.scheduler.get_last_lr()[0]),
            "train/tokens": float(self.tokens),
            "health/length": fmean(map(len, completions)),
            "health/length_max": float(max(map(len, completions))),
            "health/truncated": 1.0 - fmean(ended),
            "health/well_formed": fmean(
                c.get("well_formed", e) for c, e in zip(components, ended, strict=True)
            ),
        }
        if batch.reference is not None:
            estimates = policy_math.kl_estimates(batch.logprobs, batch.reference, "k3")
            values["health/kl"] = float(policy_math.masked_mean(estimates, batch.mask))
        return values

    def _report(self, values: dict[str, float]) -> None:
        reporting.report(self.step, {**values, **usage.memory()})
        shown = "  ".join(f"{name.split('/')[-1]} {value:.4g}" for name, value in values.items())
        print(f"step {self.step}/{self.job.settings.max_steps}  {shown}", flush=True)
        self._ring(values)

    def _ring(self, values: Mapping[str, float]) -> None:
        reporting.report(self.step, self.panel.see(values))

    def _record(
        self,
        rows: Sequence[int],
        completions: Sequence[Sequence[int]],
        batch: "Batch",
        components: Sequence[Mapping[str, float]],
        scores: Sequence[float],
    ) -> None:
        if self.writer is None:
            return
        found, reference = [], batch.reference
        for at, (row, ids) in enumerate(zip(rows, completions, strict=True)):
            logprobs = batch.logprobs[at, : len(ids)].tolist()
            before = None if reference is None else reference[at, : len(ids)].tolist()
            found.append(
                Rollout(
                    policy_version=self.step,
                    group=self.step * len(rows) + at,
                    sample=0,
                    prompt_revision=online.revision_of(self.job.prompts[row]),
                    prompt_tokens=list(self.encoded[row]),
                    completion_tokens=list(ids),
                    loss_mask=[1] * len(ids),
                    behaviour_source="trainer",
                    behaviour_logprobs=logprobs,
                    trainer_logprobs=logprobs,
                    reference_logprobs=before,
                    rewards=dict(components[at]),
                    reward=scores[at],
                    advantage=float(batch.advantages[at, : len(ids)].mean()),
                    ended=self.judge.has_ended(ids),
                )
            )
        self.writer.add(found)

    def _watch(self) -> None:
        """What is measured on the inputs `heldout` and `fixed`, where there are any."""
        job, settings = self.job, self.job.settings
        self.heldout = online.heldout_watch(
            job, self.tokenizer, self.judge, self.scorer, self._proxy
        )
        self.fixed: FixedSlice | None = None
        if (path := training.find_input("fixed")) is not None:
            from inner_trials import guards

            length = models.row_tokens(settings.max_length, job.base)
            chat = settings.chat
            self.fixed = guards.FixedSlice(path, self.tokenizer, chat=chat, max_length=length)
            self._fixed_loss = self.fixed.loss(self.learner.model)

    def _proxy(self) -> float | None:
        return self._reward if self.step else None

    def _guard(self) -> None:
        if self.heldout is not None:
            self._ring(self.heldout.measure(self.learner.model, self.step))
        if self.fixed is not None:
            loss = self.fixed.loss(self.learner.model)
            values = {"guard/fixed_loss": loss, "guard/forgetting": loss - self._fixed_loss}
            reporting.report(self.step, values)
            self._ring(values)

    def _save(self, directory: Path) -> None:
        import torch

        best = None if self.heldout is None else self.heldout.best
        mine = {"step": self.step, "tokens": self.tokens, "reward": self._reward, "best": best}
        torch.save(self.learner.state() | mine | {"alarms": self.panel.counts}, directory / STATE)
        facts.note_each("checkpoints", "saved", self.step)
        if self.writer is not None:
            self.writer.close_part()
            self.writer.keep_in(directory)

    def _load(self, directory: Path) -> None:
        import torch

        state = torch.load(directory / STATE, weights_only=True)
        self.learner.load(state)
        self.step, self.tokens, self._reward = state["step"], state["tokens"], state["reward"]
        self.panel.counts |= state["alarms"]
        if self.heldout is not None:
            self.heldout.best = state["best"]


def policy(job: Job) -> Any:
    """The base on its device, with a fresh adapter where one is trained."""
    import torch

    model = adapters.load_base(job.settings, job.base)
    config = adapters.lora_config(job.settings)
    if config is not None:
        from peft import get_peft_model

        model = get_peft_model(model, config)
    if job.settings.gradient_checkpointing:
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


if __name__ == "__main__":
    training.run("ppo", prepare, train)
