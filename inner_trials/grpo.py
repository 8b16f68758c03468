"""Group relative policy optimisation with TRL: full, LoRA or QLoRA; many losses.

Run as `python -P -m inner_trials.grpo`. Inputs: `base`, a model's directory, and `train`, prompts
with what a verifier compares answers with (inner_trials.prompts); optional: `heldout`, more of
them (inner_trials.heldout), `fixed` (inner_trials.guards), `adapter`, and `reward`, a model that
judges in the verifier's place. Every setting is a field of grpo_settings.Settings. Output:
`model/`, whole weights that any evaluator can load; `rollouts/`, what was sampled; and `resume/`.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inner_trials import adapters, health, models, pins, reporting, rewards, seeding, training
from inner_trials.contract import ROLLOUTS_DIR
from inner_trials.data import DataError
from inner_trials.grpo_settings import Settings, check_settings, sampling_record, trl_options
from inner_trials.prompts import Prompt, Shape, read_prompts
from inner_trials.rollouts import Origin, RolloutWriter
from inner_trials.scoring import Judge, RewardFunction, learned_reward, verifier_rewards
from inner_trials.settings import read_settings
from inner_trials.verifiers.protocol import BadReferenceError, Verifier
from inner_trials.verifiers.registry import make_verifier

if TYPE_CHECKING:
    from inner_trials.grpo_trainer import RecordingTrainer

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Job:
    settings: Settings
    base: Path
    reward_model: Path | None
    verifier: Verifier
    alarms: Mapping[str, health.Alarm]
    shape: Shape
    prompts: list[Prompt]
    heldout: list[Prompt]
    seed: int


def prepare(document: Mapping[str, Any]) -> Job:
    """Raises training.BAD_INPUT."""
    settings = read_settings(Settings, document)
    check_settings(settings)
    verifier = make_verifier(settings.verifier, settings.verifier_options)
    alarms = health.make_alarms(settings.alarms)
    shape, prompts = read_prompts(reporting.input_path("train"))
    heldout: list[Prompt] = []
    if (path := training.find_input("heldout")) is not None:
        other, heldout = read_prompts(path)
        if other != shape:
            raise DataError(f"heldout: its prompts are {other}, but those of train are {shape}")
    reward_model = training.find_input("reward") if settings.reward != "verifier" else None
    if settings.reward == "learned" and reward_model is None:
        reward_model = reporting.input_path("reward")
    if reward_model is not None:
        rewards.check_reward_model(reward_model, version=settings.reward_version)
    check_references(verifier, heldout if reward_model is not None else [*prompts, *heldout])
    base = training.checked_base(settings)
    seed = reporting.seed()
    return Job(settings, base, reward_model, verifier, alarms, shape, prompts, heldout, seed)


def check_references(verifier: Verifier, prompts: Sequence[Prompt]) -> None:
    """Raises DataError: a row has nothing the verifier can compare with."""
    for prompt in prompts:
        try:
            verifier.check(prompt.fields)
        except BadReferenceError as error:
            raise DataError(f"{prompt.where}: {error}") from None


def train(job: Job) -> bool:
    from inner_trials.grpo_events import OnlineEvents

    events = OnlineEvents(job.alarms, cycle=job.settings.cycle)
    trainer = build_trainer(job, events)
    training.add_guards(trainer, job.settings, job.base)
    training.fit(trainer, events)
    trainer.close_rollouts()
    training.save(trainer, job.settings, job.base, reporting.model_dir())
    return events.is_stopped


def build_trainer(job: Job, events: Any) -> "RecordingTrainer":
    """TRL's GRPOTrainer on the checked prompts, recording what it does."""
    from datasets import Dataset
    from trl import GRPOConfig

    from inner_trials.grpo_trainer import RecordingTrainer

    settings = job.settings
    seeding.seed_everything(job.seed)
    tokenizer = models.load_tokenizer(job.base)
    model = adapters.load_base(settings, job.base)
    judge = Judge(
        job.verifier, ends=end_tokens(model, tokenizer), require_end=settings.require_end
    )
    asked, encoded = encode(job, job.prompts, tokenizer)
    kept = fitting(job, "train", encoded)
    scorer = None
    if job.reward_model is not None:
        scorer = rewards.RewardModel(job.reward_model, max_length=settings.max_length)
    functions = reward_functions(job, judge, scorer)
    max_length = training.row_tokens(settings, job.base)
    common = training.trl_arguments(settings, job.seed, max_length=max_length)
    config = GRPOConfig(**trl_options(settings, common))
    if settings.format_weight and len(functions) > 1:
        config.reward_weights = [1.0, settings.format_weight]
    writer = rollout_writer(job, judge, scorer)
    trainer = RecordingTrainer(
        model,
        functions,
        config,
        train_dataset=Dataset.from_list([{"prompt": asked[i], "row": i} for i in kept]),
        processing_class=tokenizer,
        peft_config=adapters.lora_config(settings),
        writer=writer,
        revisions=[revision_of(prompt) for prompt in job.prompts],
        has_ended=judge.has_ended,
    )
    if trainer.ref_model is not None:
        # TRL loads it from the base's files, without an adapter that was merged into the base.
        trainer.ref_model.load_state_dict(trainer.model.state_dict())
    events.watch(trainer, writer)
    if job.heldout:
        add_heldout(job, trainer, events, judge, scorer)
    return trainer


def encode(
    job: Job, prompts: Sequence[Prompt], tokenizer: Any
) -> tuple[list[Any], list[list[int]]]:
    """The prompts as TRL takes them, and their tokens as it will write them.

    Raises:
        DataError: they are messages, and the base has no template to write them with.
    """
    has_template = tokenizer.chat_template is not None
    if job.shape == "chat" and not has_template:
        raise DataError("train: its prompts are messages, but the base has no chat template")
    if job.shape == "text" and not (job.settings.chat and has_template):
        texts = [prompt.prompt for prompt in prompts]
        return texts, [list(tokenizer(text)["input_ids"]) for text in texts]
    asked = [
        [{"role": "user", "content": p.prompt}] if job.shape == "text" else p.prompt
        for p in prompts
    ]
    encoded = [
        tokenizer.apply_chat_template(
            messages, tokenize=True, add_generation_prompt=True, return_dict=False
        )
        for messages in asked
    ]
    return asked, [list(ids) for ids in encoded]


def fitting(job: Job, name: str, encoded: Sequence[Sequence[int]]) -> list[int]:
    """The numbers of the prompts that leave room for a whole completion.

    Raises:
        DataError: some do not and the study does not say `too_long: drop`, or none is left.
    """
    settings = job.settings
    room = training.row_tokens(settings, job.base) - settings.max_completion_length
    kept = [index for index, ids in enumerate(encoded) if len(ids) <= room]
    if len(kept) == len(encoded):
        return kept
    longest = max(map(len, encoded))
    text = (
        f"{name}: {len(encoded) - len(kept)} of {len(encoded)} prompts have more than {room}"
        f" tokens (the longest {longest}), so that max_completion_length"
        f" {settings.max_completion_length} does not fit behind them in max_length"
        f" {settings.max_length} and the base's context"
    )
    if not kept or settings.too_long == "refuse":
        raise DataError(f"{text}; lower it, shorten them, or write too_long: drop")
    print(text, flush=True)
    reporting.report(0, {"data/rows_left_out": len(encoded) - len(kept)})
    return kept


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a completion: the tokenizer's and those the model declares."""
    declared = model.generation_config.eos_token_id
    declared = [declared] if isinstance(declared, int) else list(declared or [])
    return list(dict.fromkeys([int(tokenizer.eos_token_id), *declared]))


def reward_functions(job: Job, judge: Judge, scorer: Any) -> list[RewardFunction]:
    if scorer is not None:
        return [learned_reward(scorer, judge)]
    return verifier_rewards(judge, job.prompts, with_format=job.settings.format_weight > 0)


def rollout_writer(job: Job, judge: Judge, scorer: Any) -> RolloutWriter | None:
    if job.settings.rollout_mib == 0:
        return None
    pinned = pins.read_pins(job.base)
    origin = Origin(
        tokenizer=pinned["tokenizer"],
        chat_template=pinned["chat_template"],
        sampling=sampling_record(job.settings, judge.ends),
        seed=job.seed,
        verifier=judge.version if scorer is None else f"reward_model/{scorer.version}",
        verifier_options=job.settings.verifier_options,
    )
    directory = reporting.output_dir() / ROLLOUTS_DIR
    shutil.rmtree(directory, ignore_errors=True)
    limit = int(job.settings.rollout_mib * MIB)
    writer = RolloutWriter(directory, origin, limit_bytes=limit)
    if (resume := reporting.resume_dir()) is not None:
        writer.take_from(resume)
    return writer


def revision_of(prompt: Prompt) -> str:
    """sha256 of a prompt's whole row."""
    row = {"prompt": prompt.prompt, **prompt.fields}
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()


def add_heldout(job: Job, trainer: Any, events: Any, judge: Judge, scorer: Any) -> None:
    from inner_trials.heldout import HeldOut

    _, encoded = encode(job, job.heldout, trainer.processing_class)
    kept = fitting(job, "heldout", encoded)
    watch = HeldOut(
        [job.heldout[index] for index in kept],
        [encoded[index] for index in kept],
        judge,
        trainer.processing_class,
        proxy=lambda: events.latest("train/reward").get("train/reward"),
        score=None if scorer is None else scorer.score,
        max_new_tokens=job.settings.max_completion_length,
        every=job.settings.guard_every,
    )
    events.watch_heldout(watch)
    trainer.add_callback(watch)


if __name__ == "__main__":
    training.run("grpo", prepare, train)
