"""Trains a reward model on preference pairs with TRL: full, LoRA or QLoRA.

Run as `python -P -m inner_trials.reward_model`. Inputs: `base`, a causal language model's
directory, and `train`, pairs of a chosen and a rejected answer (inner_trials.pairs); optional:
`heldout`, more pairs. Every setting is a field of Settings. The loss is that of Bradley and Terry
(1952): -log sigmoid(r(chosen) - r(rejected) - margin). Output: `model/`, a sequence classifier
with one label and `reward.json`, which names its version (inner_trials.rewards), and `resume/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from inner_trials import (
    adapters,
    distributed,
    models,
    pairs,
    reporting,
    rewards,
    seeding,
    sharding,
    training,
    unfit_rows,
)
from inner_trials.settings import SettingsError, above, at_least, read_settings

REPORTED: Final[Mapping[str, str]] = {
    f"{prefix}{theirs}": f"{scope}/{ours}"
    for prefix, scope in (("", "train"), ("eval_", "heldout"))
    for theirs, ours in {
        "accuracy": "preference_accuracy",
        "margin": "preference_margin",
        "min_reward": "reward_min",
        "mean_reward": "reward_mean",
        "max_reward": "reward_max",
    }.items()
}
HEAD: Final = ("score.weight",)
"""What a language model lacks to be a reward model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(sharding.ShardedSettings, training.TrainingSettings):
    """All that a study may set or search."""

    learning_rate: float = above(0.0, default=1e-4)
    center_rewards: float = at_least(0.0, default=0.0)
    """Weight of (r(chosen) + r(rejected))², which keeps rewards around 0 (Eisenstein et al.)."""
    dropout: bool = False
    """Whether the base's own dropout stays on."""


@dataclass(frozen=True, slots=True)
class Job:
    settings: Settings
    base: Path
    shape: pairs.Shape
    rows: list[dict[str, Any]]
    heldout: list[dict[str, Any]]
    seed: int
    source: Path | None = None
    """Where `rows` were read; None: they were made."""


def prepare(document: Mapping[str, Any]) -> Job:
    """Raises training.BAD_INPUT."""
    settings = read_settings(Settings, document)
    if training.find_input("fixed") is not None:
        raise SettingsError(
            "program.data.fixed: a reward model has no likelihoods to keep; mount heldout instead"
        )
    source = reporting.input_path("train")
    shape, rows = pairs.read_pairs(source)
    heldout = pairs.read_heldout(training.find_input("heldout"), shape)
    base = training.checked_base(settings)
    models.check_padding(base)
    return Job(settings, base, shape, rows, heldout, reporting.seed(), source)


def train(job: Job) -> bool:
    from inner_trials.trainer_events import TrialEvents

    events = TrialEvents(REPORTED)
    trainer = build_trainer(job)
    training.fit(trainer, events)
    directory = reporting.model_dir()
    training.save(trainer, job.settings, job.base, directory, load=load_classifier)
    if not distributed.is_first():
        return events.is_stopped
    description = rewards.write_description(
        directory,
        base_sha256=adapters.weights_digest(job.base),
        pairs=len(job.rows),
        chat=trained_in_chat(job, trainer.processing_class),
        settings=adapters.described(job.settings),
        metrics=events.latest(*REPORTED.values()),
    )
    print(f"reward model {description['version']}", flush=True)
    return events.is_stopped


def build_trainer(job: Job) -> Any:
    """TRL's RewardTrainer on the checked pairs."""
    from datasets import Dataset
    from trl import RewardConfig, RewardTrainer

    settings = job.settings
    seeding.seed_everything(job.seed)
    tokenizer = models.load_tokenizer(job.base)
    has_template = tokenizer.chat_template is not None
    rows, heldout = (
        pairs.in_template(job.shape, side, chat=settings.chat, has_template=has_template)
        for side in (job.rows, job.heldout)
    )
    max_length = models.row_tokens(settings.max_length, job.base)
    arguments = training.trl_arguments(settings, job.seed, max_length=max_length)
    if heldout:
        arguments |= training.evaluation_arguments(settings)
    given = (rows, job.source), (heldout, training.find_input("heldout"))
    with unfit_rows.naming(tokenizer, *given):
        trainer = RewardTrainer(
            load_classifier(settings, job.base),
            RewardConfig(
                **arguments,
                center_rewards_coefficient=settings.center_rewards or None,
                disable_dropout=not settings.dropout,
            ),
            train_dataset=Dataset.from_list(rows),
            eval_dataset=Dataset.from_list(heldout) if heldout else None,
            processing_class=tokenizer,
            peft_config=adapters.lora_config(settings, task="SEQ_CLS"),
        )
    adapters.restore_precision(trainer.model, settings)
    unfit_rows.check_left_out(trainer, *given, settings, max_length, whole=True)
    return trainer


def trained_in_chat(job: Job, tokenizer: Any) -> bool:
    """Whether what it scores has to be written with the chat template."""
    in_messages = job.shape == "chat" or job.settings.chat
    return in_messages and tokenizer.chat_template is not None


def load_classifier(settings: Settings, base: Path) -> Any:
    """The base with one random row for a head; an earlier reward model with the head it has."""
    return adapters.load_base(
        settings, base, auto_class="AutoModelForSequenceClassification", new_weights=HEAD
    )


if __name__ == "__main__":
    training.run("reward_model", prepare, train)
