"""Group relative policy optimisation with TRL: full, LoRA or QLoRA; many losses.

Run as `python -P -m inner_trials.grpo`. Inputs: `base`, a model's directory, and `train`, prompts
with what a verifier compares answers with (inner_trials.prompts); optional: `heldout`, more of
them (inner_trials.heldout), `fixed` (inner_trials.guards), `adapter`, and `reward`, a model that
judges in the verifier's place. Every setting is a field of grpo_settings.Settings. Output:
`model/`, whole weights that any evaluator can load; `rollouts/`, what was sampled; and `resume/`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from inner_trials import (
    adapters,
    distributed,
    health,
    models,
    online,
    reporting,
    rewards,
    rollout_actors,
    seeding,
    training,
)
from inner_trials.grpo_settings import Settings, check_settings, check_split, trl_options
from inner_trials.scoring import (
    Judge,
    RewardFunction,
    environment_reward,
    learned_reward,
    verifier_rewards,
)

if TYPE_CHECKING:
    from inner_trials.grpo_trainer import RecordingTrainer


Job: TypeAlias = online.Job[Settings]


def prepare(document: Mapping[str, Any]) -> Job:
    """Raises training.BAD_INPUT."""
    job = online.prepare(Settings, document)
    check_settings(job.settings)
    check_split(job.settings, has_start=training.find_input("adapter") is not None)
    if bound := job.settings.staleness_bound:
        given = {"stale_actors": bound, **job.settings.alarms}
        job = dataclasses.replace(job, alarms=health.make_alarms(given))
    return job


def train(job: Job) -> bool:
    with rollout_actors.server_of(job.settings, job.base) as actors:
        from inner_trials.grpo_events import OnlineEvents

        events = OnlineEvents(job.alarms, cycle=job.settings.cycle)
        trainer = build_trainer(job, events, actors)
        training.add_guards(trainer, job.settings, job.base, events.ring)
        training.fit(trainer, events)
        trainer.close_rollouts()
        if trainer.actors is not None:
            trainer.actors.close()
    training.save(trainer, job.settings, job.base, reporting.model_dir())
    return events.is_stopped


def build_trainer(
    job: Job, events: Any, make_actors: rollout_actors.MakeActors | None = None
) -> "RecordingTrainer":
    """TRL's GRPOTrainer on the checked prompts, recording what it does."""
    from datasets import Dataset
    from trl import GRPOConfig

    settings = job.settings
    seeding.seed_everything(job.seed)
    tokenizer = models.load_tokenizer(job.base)
    model = adapters.load_base(settings, job.base)
    judge = Judge(
        job.verifier, ends=online.end_tokens(model, tokenizer), require_end=settings.require_end
    )
    asked, encoded = online.encode(job, job.prompts, tokenizer)
    kept = online.fitting(job, "train", encoded)
    scorer = None
    if job.reward_model is not None:
        scorer = rewards.RewardModel(job.reward_model, max_length=settings.max_length)
    functions = reward_functions(job, judge, scorer)
    max_length = models.row_tokens(settings.max_length, job.base)
    common = training.trl_arguments(settings, job.seed, max_length=max_length)
    config = GRPOConfig(**trl_options(settings, common))
    if settings.format_weight and len(functions) > 1:
        config.reward_weights = [1.0, settings.format_weight]
    writer = online.rollout_writer(job, judge, scorer)
    kind, particular = trainer_kind(job, kept)
    trainer = kind(
        model,
        functions,
        config,
        train_dataset=Dataset.from_list([{"prompt": asked[i], "row": i} for i in kept]),
        processing_class=tokenizer,
        peft_config=adapters.lora_config(settings),
        writer=writer,
        revisions=[online.revision_of(prompt) for prompt in job.prompts],
        has_ended=judge.has_ended,
        actors=None if make_actors is None else make_actors(judge.ends),
        rollout_func=None if job.environment is None else turns(job, encoded, judge),
        **particular,
    )
    adapters.restore_precision(trainer.model, settings)
    if trainer.ref_model is not None and training.find_input("adapter") is not None:
        # TRL loads it from the base's files, without the adapter that was merged into the base.
        trainer.ref_model.load_state_dict(trainer.model.state_dict())
    _begin_together(trainer, encoded)
    events.watch(trainer, writer)
    _watch_heldout(job, trainer, events, judge, scorer)
    return trainer


def _begin_together(trainer: Any, encoded: Any) -> None:
    """Sampling by actors, or by several processes at once, starts from the same prompts."""
    if trainer.actors is not None:
        trainer.actors.expect(encoded)
    distributed.generate_together(trainer)


def _watch_heldout(job: Job, trainer: Any, events: Any, judge: Judge, scorer: Any) -> None:
    def proxy() -> float | None:
        reward: float | None = events.latest("train/reward").get("train/reward")
        return reward

    heldout = online.heldout_watch(job, trainer.processing_class, judge, scorer, proxy)
    if heldout is not None:
        events.watch_heldout(heldout)
        trainer.add_callback(heldout)


def trainer_kind(job: Job, kept: Sequence[int]) -> "tuple[type[RecordingTrainer], dict[str, Any]]":
    """The trainer that chooses and batches as the settings say, and what it is given for it."""
    from inner_trials.group_sampling import Batching
    from inner_trials.grpo_selection import SelectingTrainer
    from inner_trials.grpo_trainer import RecordingTrainer
    from inner_trials.prompt_choice import PromptChoice

    settings = job.settings
    batching = Batching(
        buckets=settings.length_buckets,
        straggler_tokens=settings.straggler_tokens,
        share_prefix=settings.share_prefix,
    )
    particular: dict[str, Any] = {"batching": batching if settings.samples_apart else None}
    if settings.prompt_sampling == "all":
        return RecordingTrainer, particular
    choice = PromptChoice(
        kept,
        seed=job.seed,
        rest_after=settings.rest_after,
        rest_passes=settings.rest_passes,
    )
    particular |= {"choice": choice, "rounds": settings.resample_rounds}
    return SelectingTrainer, particular


def turns(job: Job, encoded: list[list[int]], judge: Judge) -> Any:
    """TRL's hook for completions that are more than one answer."""
    from inner_trials.environments.turns import play

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        assert job.environment is not None
        rows = trainer.rows
        played = play(
            job.environment,
            [job.prompts[row] for row in rows],
            [encoded[row] for row in rows],
            trainer.processing_class,
            trainer.continuations,
            max_tokens=job.settings.max_completion_length,
            ends=judge.ends,
        )
        if job.settings.partial_episodes == "mask":
            for state in played:
                state.mask = [0] * len(state.mask) if state.note else state.mask
        return {
            "prompt_ids": [encoded[row] for row in rows],
            "completion_ids": [state.tokens for state in played],
            "logprobs": None,
            "env_mask": [state.mask for state in played],
            "episode": played,
        }

    return rollout


def reward_functions(job: Job, judge: Judge, scorer: Any) -> list[RewardFunction]:
    if job.environment is not None:
        return [environment_reward]
    if scorer is not None:
        return [learned_reward(scorer, judge)]
    return verifier_rewards(judge, job.prompts, with_format=job.settings.format_weight > 0)


if __name__ == "__main__":
    training.run("grpo", prepare, train)
