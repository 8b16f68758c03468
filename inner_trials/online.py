"""What online programs share: sampling, rewards and records of one's own answers.

A program extends OnlineSettings and gets its Job from `prepare`, with the standard library alone.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from inner_trials import (
    distributed,
    facts,
    health,
    models,
    pins,
    reporting,
    rewards,
    training,
    unfit_rows,
)
from inner_trials.contract import ROLLOUTS_DIR
from inner_trials.data import DataError
from inner_trials.environments.protocol import Environment
from inner_trials.environments.registry import make_environment
from inner_trials.prompts import Prompt, Shape, read_prompts
from inner_trials.rollouts import Origin, RolloutWriter, SharedWriter
from inner_trials.scoring import Judge
from inner_trials.settings import SettingsError, above, at_least, read_settings
from inner_trials.verifiers.protocol import BadReferenceError, Verifier
from inner_trials.verifiers.registry import make_verifier

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineSettings(training.TrainingSettings):
    """What a study may set or search in any program that learns from its own samples."""

    report_every: int = at_least(1, default=1)
    # sampling
    max_completion_length: int = at_least(1, default=256)
    temperature: float = above(0.0, default=1.0)
    top_p: float = field(default=1.0, metadata={"above": 0.0, "at_most": 1.0})
    top_k: int = at_least(0, default=0)
    """0: all tokens."""
    min_p: float = field(default=0.0, metadata={"at_least": 0.0, "at_most": 1.0})
    repetition_penalty: float = above(0.0, default=1.0)
    # the reward
    reward: Literal["verifier", "learned", "environment"] | None = None
    """`learned`: the input `reward`, a model that the program reward_model made; `environment`:
    what `environment` gives after some turns; null: learned if the study mounts such a model,
    else environment if one is named, else verifier."""
    verifier: str = "exact"
    """exact, numeric, math, json_schema or code; with a learned reward, the judge of the input
    `heldout` alone."""
    verifier_options: dict[str, Any] = field(default_factory=dict)
    environment: str = ""
    """retry (a wrong answer may be tried again), program (one of the study's) or tools (functions
    that the model calls); inner_trials.environments."""
    environment_options: dict[str, Any] = field(default_factory=dict)
    reward_version: str = ""
    """Pins the reward model: another one is refused. Empty: not pinned."""
    format_weight: float = at_least(0.0, default=0.0)
    """Adds so much for a completion that ends by itself with an answer that can be read."""
    require_end: bool = True
    """A completion that was cut off is worth nothing, as for the evaluator."""
    # what is watched and kept
    alarms: dict[str, Any] = field(default_factory=dict)
    """Other thresholds by alarm (inner_trials.health); null turns one off."""
    rollout_mib: float = at_least(0.0, default=64.0)
    """Completions are recorded (artifact `rollouts`) up to this size; 0 records none."""

    @property
    def sampler(self) -> str:
        """What draws the completions."""
        return "transformers"


S = TypeVar("S", bound=OnlineSettings)


@dataclass(frozen=True)
class Job(Generic[S]):
    """What a program was given. (Without slots, which generic classes do not go with.)"""

    settings: S
    base: Path
    reward_model: Path | None
    """Where the reward is learned."""
    verifier: Verifier
    environment: Environment | None
    alarms: Mapping[str, health.Alarm]
    shape: Shape
    prompts: list[Prompt]
    heldout: list[Prompt]
    seed: int


def prepare(cls: type[S], document: Mapping[str, Any]) -> Job[S]:
    """Raises training.BAD_INPUT."""
    settings = read_settings(cls, document)
    verifier = make_verifier(settings.verifier, settings.verifier_options)
    alarms = health.make_alarms(settings.alarms)
    shape, prompts = read_prompts(reporting.input_path("train"))
    heldout: list[Prompt] = []
    if (path := training.find_input("heldout")) is not None:
        other, heldout = read_prompts(path)
        if other != shape:
            raise DataError(f"heldout: its prompts are {other}, but those of train are {shape}")
    reward_model = None
    if settings.reward == "learned" or (settings.reward is None and not settings.environment):
        reward_model = training.find_input("reward")
    if settings.reward == "learned" and reward_model is None:
        reward_model = reporting.input_path("reward")
    if settings.format_weight and (reward_model or settings.environment):
        kind = "a learned reward" if reward_model else "an environment's reward"
        raise SettingsError(f"options.format_weight: {kind} has no such part; leave it out")
    if reward_model is not None:
        rewards.check_reward_model(reward_model, version=settings.reward_version)
    environment = _environment(settings, verifier, shape)
    check_references((environment or verifier).check, prompts if reward_model is None else [])
    check_references(verifier.check, heldout)
    base = training.checked_base(settings)
    seed = reporting.seed()
    return Job(
        settings, base, reward_model, verifier, environment, alarms, shape, prompts, heldout, seed
    )


def _environment(settings: OnlineSettings, verifier: Verifier, shape: Shape) -> Environment | None:
    if settings.reward == "environment" and not settings.environment:
        raise SettingsError("options.environment: reward environment needs one; name it")
    if not settings.environment:
        return None
    if settings.reward not in (None, "environment"):
        raise SettingsError(f"options.environment: with reward {settings.reward} none is asked")
    if not settings.chat and shape == "text":
        raise SettingsError("options.chat: an environment answers in messages; write true")
    place = training.find_input("environment")
    return make_environment(settings.environment, settings.environment_options, verifier, place)


def check_references(
    check: Callable[[Mapping[str, Any]], None], prompts: Sequence[Prompt]
) -> None:
    """Raises DataError: a row has nothing its judge can compare with."""
    for prompt in prompts:
        try:
            check(prompt.fields)
        except BadReferenceError as error:
            raise DataError(f"{prompt.where}: {error}") from None


def encode(
    job: Job[S], prompts: Sequence[Prompt], tokenizer: Any
) -> tuple[list[Any], list[list[int]]]:
    """The prompts as TRL takes them, and their tokens as it will write them.

    Raises:
        DataError: they are messages, and the base has no template that writes them.
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
    tools = () if job.environment is None else job.environment.tools
    encoded = [
        unfit_rows.prompt_tokens(tokenizer, messages, prompt.where, tools=tools)
        for prompt, messages in zip(prompts, asked, strict=True)
    ]
    return asked, encoded


def fitting(job: Job[S], name: str, encoded: Sequence[Sequence[int]]) -> list[int]:
    """The numbers of the prompts that leave room for a whole completion.

    Raises:
        DataError: some do not and the study does not say `too_long: drop`, or none is left.
    """
    settings = job.settings
    room = models.row_tokens(settings.max_length, job.base) - settings.max_completion_length
    kept = [index for index, ids in enumerate(encoded) if len(ids) <= room]
    if len(kept) == len(encoded):
        return kept
    longest = max(range(len(encoded)), key=lambda index: len(encoded[index]))
    rows = job.heldout if name == "heldout" else job.prompts
    text = (
        f"{name}: {len(encoded) - len(kept)} of {len(encoded)} prompts have more than"
        f" {max(room, 0)} tokens (the longest, {rows[longest].where}, {len(encoded[longest])}), so"
        f" that max_completion_length {settings.max_completion_length} does not fit behind them in"
        f" max_length {settings.max_length} and the base's context"
    )
    if not kept or settings.too_long == "refuse":
        raise DataError(f"{text}; lower it, shorten them, or write too_long: drop")
    print(text, flush=True)
    scope = "data" if name == "train" else f"data/{name}"
    reporting.report(0, {f"{scope}/rows_left_out": len(encoded) - len(kept)})
    return kept


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Every token that ends a completion: the tokenizer's and those the model declares."""
    declared = model.generation_config.eos_token_id
    declared = [declared] if isinstance(declared, int) else list(declared or [])
    return list(dict.fromkeys([int(tokenizer.eos_token_id), *declared]))


def rollout_writer(job: Job[S], judge: Judge, scorer: Any) -> RolloutWriter | None:
    pinned = pins.read_pins(job.base)
    origin = Origin(
        tokenizer=pinned["tokenizer"],
        chat_template=pinned["chat_template"],
        sampling=sampling_record(job.settings, judge.ends),
        seed=job.seed,
        verifier=judge.version if scorer is None else f"reward_model/{scorer.version}",
        verifier_options=job.settings.verifier_options,
        environment=None if job.environment is None else job.environment.version,
    )
    facts.note("sampling", **origin.sampling)
    facts.note(
        "reward",
        judge=origin.verifier,
        options=dict(origin.verifier_options),
        environment=origin.environment,
    )
    if job.settings.rollout_mib == 0:
        # Unrecorded, so that only the bounds are known.
        facts.note("policy_versions", first=0, up_to=job.settings.max_steps - 1)
        return None
    directory = reporting.output_dir() / ROLLOUTS_DIR
    if distributed.is_first():  # another rank may be later than what the first puts there
        shutil.rmtree(directory, ignore_errors=True)
    limit = int(job.settings.rollout_mib * MIB)
    kind = SharedWriter if distributed.is_joined() else RolloutWriter
    writer = kind(directory, origin, limit_bytes=limit)
    if (resume := reporting.resume_dir()) is not None:
        writer.take_from(resume)
    return writer


def revision_of(prompt: Prompt) -> str:
    """sha256 of a prompt's whole row."""
    row = {"prompt": prompt.prompt, **prompt.fields}
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()


def sampling_record(settings: OnlineSettings, stop_ids: list[int]) -> dict[str, Any]:
    """How completions are drawn, for the record of each."""
    return {
        "sampler": settings.sampler,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "min_p": settings.min_p,
        "repetition_penalty": settings.repetition_penalty,
        "max_completion_length": settings.max_completion_length,
        "stop_token_ids": stop_ids,
    }


def heldout_watch(
    job: Job[S], tokenizer: Any, judge: Judge, scorer: Any, proxy: Callable[[], float | None]
) -> Any:
    """The guard on the input `heldout`; None where the study mounts none. `proxy` is the latest
    training reward, `scorer` the reward model, if there is one."""
    from inner_trials.heldout import HeldOut

    if not job.heldout:
        return None
    _, encoded = encode(job, job.heldout, tokenizer)
    kept = fitting(job, "heldout", encoded)
    return HeldOut(
        [job.heldout[index] for index in kept],
        [encoded[index] for index in kept],
        judge,
        tokenizer,
        proxy=proxy,
        score=None if scorer is None else scorer.score,
        max_new_tokens=job.settings.max_completion_length,
        every=job.settings.guard_every,
    )
