"""Rejection sampling: the best of N sampled answers becomes a data set, and a model learns it.

Run as `python -P -m inner_trials.rejection_sampling`. Inputs: `base`, a model's directory, and
`train`, JSON Lines of prompt and what a verifier compares answers with; optional: `reward`, a
reward model that judges in the verifier's place, `fixed` and `adapter`. Every setting is a field
of Settings. The data set (inner_trials.best_of) is demonstrations for sft or pairs for dpo, and
is kept below `model/data_set`. Output: `model/`, whole weights, and `resume/`.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from inner_trials import (
    adapters,
    best_of,
    data,
    distributed,
    dpo,
    facts,
    models,
    pins,
    prompts,
    reporting,
    rewards,
    sampling,
    sft,
    sharding,
    training,
)
from inner_trials.best_of import Judged
from inner_trials.settings import above, at_least, read_settings
from inner_trials.verifiers.protocol import BadReferenceError, Verifier
from inner_trials.verifiers.registry import make_verifier

DATA_SET: Final = "data_set"
PARTIAL: Final = "answers.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(sharding.ShardedSettings, training.TrainingSettings, sampling.SamplingSettings):
    """All that a study may set or search."""

    verifier: str = "exact"
    """What judges answers when the study mounts no input `reward`."""
    verifier_options: dict[str, object] = dataclasses.field(default_factory=dict)
    reward_version: str = ""
    """Pins the reward model: another version is refused. Empty: not pinned."""
    min_reward: float | None = None
    """What the best answer has to be worth. Null: anything above 0 for a verifier, anything for
    a reward model."""
    data_set: Literal["sft", "dpo"] = "sft"
    """`sft`: the best answers; `dpo`: the best against the worst. The model learns it likewise."""
    beta: float = above(0.0, default=0.1)
    """Of dpo."""
    prompts_limit: int = at_least(0, default=0)
    """Sample for the first so many prompts only; 0: all."""


@dataclass(frozen=True, slots=True)
class Job:
    settings: Settings
    base: Path
    reward: Path | None
    verifier: Verifier
    shape: prompts.Shape
    prompts: list[prompts.Prompt]
    train_sha256: str
    seed: int

    @property
    def min_reward(self) -> float:
        if self.settings.min_reward is not None:
            return self.settings.min_reward
        return 1e-9 if self.reward is None else float("-inf")


def prepare(document: Mapping[str, Any]) -> Job:
    """Raises training.BAD_INPUT."""
    settings = read_settings(Settings, document)
    verifier = make_verifier(settings.verifier, settings.verifier_options)
    train_path = reporting.input_path("train")
    shape, found = prompts.read_prompts(train_path)
    found = found[: settings.prompts_limit or len(found)]
    base, reward = training.checked_base(settings), training.find_input("reward")
    if reward is not None:
        rewards.check_reward_model(reward, version=settings.reward_version)
    else:
        _check_references(verifier, found)
    digest = data.rows_digest(train_path)
    return Job(settings, base, reward, verifier, shape, found, digest, reporting.seed())


def _check_references(verifier: Verifier, found: Sequence[prompts.Prompt]) -> None:
    for prompt in found:
        try:
            verifier.check(prompt.fields)
        except BadReferenceError as error:
            raise data.DataError(f"{prompt.where}: {error}") from None


def train(job: Job) -> bool:
    """Sample, choose, learn; each part is skipped that an earlier attempt has done."""
    directory = reporting.model_dir() / DATA_SET
    earlier = reporting.resume_dir()
    if earlier is not None and (earlier / DATA_SET).is_dir():
        with distributed.first_alone() as is_first:
            if is_first:
                shutil.copytree(earlier / DATA_SET, directory, dirs_exist_ok=True)
    elif not make_data_set(job, directory, earlier):
        return True
    return learn(job, directory)


def make_data_set(job: Job, directory: Path, earlier: Path | None) -> bool:
    """Sample and judge; False when asked to stop, with the answers so far in a checkpoint.

    Of several processes each samples a share of the prompts with the whole model; which they are
    makes no difference to the answers. The first judges them all.
    """
    answers = _sampled(job, earlier)
    if distributed.agreed(said=distributed.is_first() and len(answers) < len(job.prompts)):
        if distributed.is_first():
            reporting.save_checkpoint(lambda folder: _write_partial(folder, answers))
        return False
    with distributed.first_alone() as is_first:
        if is_first:
            _choose(job, answers, directory)
    return True


def _sampled(job: Job, earlier: Path | None) -> dict[int, Sequence[sampling.Answer]]:
    """What all processes have, on the first."""
    import torch

    model = adapters.load_base(job.settings, job.base)
    answers = sampling.sample(
        model.to("cuda") if torch.cuda.is_available() else model,
        models.load_tokenizer(job.base),
        [prompt.prompt for prompt in job.prompts],
        job.settings,
        chat=job.settings.chat,
        seed=job.seed,
        done=_read_partial(earlier),
        should_stop=reporting.should_stop,
    )
    return dict(distributed.gathered(list(answers.items())))


def _choose(job: Job, answers: Mapping[int, Sequence[sampling.Answer]], directory: Path) -> None:
    settings = job.settings
    judge, judge_version = make_judge(job)
    judged = judge([answers[index] for index in range(len(job.prompts))])
    rows = best_of.choose(settings.data_set, job.prompts, judged, job.min_reward)
    found = best_of.statistics(judged, len(rows))
    reporting.report(0, found)
    print("  ".join(f"{name} {value:.4g}" for name, value in found.items()), flush=True)
    best_of.check_any(rows, len(job.prompts), settings.samples, job.min_reward)
    best_of.write(directory, rows, job.prompts, judged, lineage(job, judge_version))
    reporting.save_checkpoint(lambda folder: _copy(directory, folder))


def make_judge(
    job: Job,
) -> tuple[Callable[[Sequence[Sequence[sampling.Answer]]], list[list[Judged]]], str]:
    """What gives every answer its reward, and its version."""
    if job.reward is None:
        return lambda answers: _by_verifier(job, answers), job.verifier.version
    model = rewards.RewardModel(job.reward, version=job.settings.reward_version)
    return lambda answers: _by_reward_model(job, model, answers), f"reward_model/{model.version}"


def _by_verifier(job: Job, answers: Sequence[Sequence[sampling.Answer]]) -> list[list[Judged]]:
    return [
        [
            Judged(a.text, a.is_ended, job.verifier.verify(a.text, prompt.fields).reward)
            for a in some
        ]
        for prompt, some in zip(job.prompts, answers, strict=True)
    ]


def _by_reward_model(
    job: Job, model: rewards.RewardModel, answers: Sequence[Sequence[sampling.Answer]]
) -> list[list[Judged]]:
    pairs = [(p.prompt, a) for p, some in zip(job.prompts, answers, strict=True) for a in some]
    scores = iter(model.score([p for p, _ in pairs], [a.text for _, a in pairs]))
    return [[Judged(a.text, a.is_ended, next(scores)) for a in some] for some in answers]


def lineage(job: Job, judge_version: str) -> dict[str, Any]:
    """Everything that decided the data set."""
    sampled = {f.name: getattr(job.settings, f.name) for f in _fields(sampling.SamplingSettings)}
    return {
        "format": 1,
        "kind": job.settings.data_set,
        "base_sha256": adapters.weights_digest(job.base),
        "pins": dict(pins.read_pins(job.base)),
        "prompts_sha256": job.train_sha256,
        "prompts": len(job.prompts),
        "sampling": sampled,
        "seed": job.seed,
        "chat": job.settings.chat,
        "judge": judge_version,
        "judge_options": job.settings.verifier_options if job.reward is None else {},
        "min_reward": job.settings.min_reward,
    }


def learn(job: Job, directory: Path) -> bool:
    """Train on the data set as the programs sft and dpo do."""
    from inner_trials.trainer_events import TrialEvents

    settings, rows = job.settings, _read_rows(directory)
    _note_lineage(directory)
    names = [*_fields(training.TrainingSettings), *_fields(sharding.ShardedSettings)]
    shared = {field.name: getattr(settings, field.name) for field in names}
    shape: Any = job.shape
    if settings.data_set == "dpo":
        dpo_settings = dpo.Settings(**shared, beta=settings.beta)
        dpo_job = dpo.Job(dpo_settings, job.base, None, shape, rows, [], job.seed)
        events, trainer = TrialEvents(dpo.REPORTED), dpo.build_trainer(dpo_job)
    else:
        sft_job = sft.Job(sft.Settings(**shared), job.base, shape, rows, [], job.seed)
        events, trainer = TrialEvents(), sft.build_trainer(sft_job)
    training.add_guards(trainer, settings, job.base)
    events.also_keep(lambda folder: _copy(directory, folder))
    training.fit(trainer, events)
    training.save(trainer, settings, job.base, reporting.model_dir())
    return events.is_stopped


def _note_lineage(directory: Path) -> None:
    """Whoever made the data set: this attempt, or one before it."""
    made = json.loads((directory / best_of.LINEAGE).read_text(encoding="utf-8"))
    facts.note("sampling", sampler="transformers", **made["sampling"])
    facts.note("reward", judge=made["judge"], options=made["judge_options"], environment=None)
    facts.note("policy_versions", first=0, last=0)


def _fields(cls: Any) -> tuple[Any, ...]:
    return dataclasses.fields(cls)


def _read_rows(directory: Path) -> list[dict[str, Any]]:
    lines = (directory / best_of.ROWS).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def _copy(directory: Path, folder: Path) -> None:
    shutil.copytree(directory, folder / DATA_SET)


def _write_partial(folder: Path, answers: Mapping[int, Sequence[sampling.Answer]]) -> None:
    document = {str(i): [dataclasses.astuple(a) for a in some] for i, some in answers.items()}
    (folder / PARTIAL).write_text(json.dumps(document), encoding="utf-8")


def _read_partial(earlier: Path | None) -> dict[int, list[sampling.Answer]]:
    if earlier is None or not (earlier / PARTIAL).is_file():
        return {}
    document = json.loads((earlier / PARTIAL).read_text(encoding="utf-8"))
    return {int(i): [sampling.Answer(*answer) for answer in some] for i, some in document.items()}


if __name__ == "__main__":
    training.run("rejection_sampling", prepare, train)
