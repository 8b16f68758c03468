"""Supervised fine-tuning of a causal language model with TRL: full, LoRA or QLoRA.

Run as `python -P -m inner_trials.sft`. Inputs: `base`, a model's directory, and `train`, JSON
Lines of prompt and completion (texts, or lists of messages) or of messages; optional: `heldout`,
`fixed` (inner_trials.guards) and `adapter`. Every setting is a field of Settings; params.json's
`options` fix some and its `parameters` override them. Output: `model/`, whole weights that any
evaluator can load, and `resume/`, the trainer's own checkpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from inner_trials import (
    adapters,
    data,
    models,
    reporting,
    seeding,
    sharding,
    training,
    unfit_rows,
)
from inner_trials.settings import read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(sharding.ShardedSettings, training.TrainingSettings):
    """All that a study may set or search."""

    packing: bool = False
    """Several rows in one sequence of max_length; longer rows are cut at the end."""
    loss_on: Literal["completion", "all"] = "completion"
    """`completion`: prompts (or all but the assistant's turns) add nothing to the loss."""


@dataclass(frozen=True, slots=True)
class Job:
    settings: Settings
    base: Path
    shape: data.Shape
    rows: list[dict[str, Any]]
    heldout: list[dict[str, Any]]
    """Of the same shape; empty where the study has none."""
    seed: int
    source: Path | None = None
    """Where `rows` were read; None: they were made."""


def prepare(document: Mapping[str, Any]) -> Job:
    """Raises training.BAD_INPUT."""
    settings = read_settings(Settings, document)
    source = reporting.input_path("train")
    shape, rows = data.read_examples(source)
    heldout: list[dict[str, Any]] = []
    if (path := training.find_input("heldout")) is not None:
        other, heldout = data.read_examples(path)
        if other != shape:
            raise data.DataError(f"heldout: has the shape {other}, but train {shape}")
    base = training.checked_base(settings)
    return Job(settings, base, shape, rows, heldout, reporting.seed(), source)


def train(job: Job) -> bool:
    from inner_trials.trainer_events import TrialEvents

    events = TrialEvents()
    trainer = build_trainer(job)
    training.add_guards(trainer, job.settings, job.base)
    training.fit(trainer, events)
    training.save(trainer, job.settings, job.base, reporting.model_dir())
    return events.is_stopped


def build_trainer(job: Job) -> Any:
    """TRL's SFTTrainer on the checked rows."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    settings = job.settings
    seeding.seed_everything(job.seed)
    tokenizer = models.load_tokenizer(job.base)
    has_template = tokenizer.chat_template is not None
    # Together, so that what is measured is masked as what is learned from.
    both = [*job.rows, *job.heldout]
    both, by_turns = training_rows(job.shape, both, settings, has_template=has_template)
    rows, heldout = both[: len(job.rows)], both[len(job.rows) :]
    given = (rows, job.source), (heldout, training.find_input("heldout"))
    if by_turns:
        _check_turns(tokenizer, *given)
    max_length = models.row_tokens(settings.max_length, job.base)
    arguments = training.trl_arguments(settings, job.seed, max_length=max_length)
    if heldout:
        arguments |= training.evaluation_arguments(settings)
    with unfit_rows.naming(tokenizer, *given):
        trainer = SFTTrainer(
            adapters.load_base(settings, job.base),
            SFTConfig(
                **arguments,
                packing=settings.packing,
                completion_only_loss=settings.loss_on == "completion" and not by_turns,
                assistant_only_loss=by_turns,
            ),
            train_dataset=Dataset.from_list(rows),
            eval_dataset=Dataset.from_list(heldout) if heldout else None,
            processing_class=tokenizer,
            peft_config=adapters.lora_config(settings),
        )
    adapters.restore_precision(trainer.model, settings)
    # A packed row is several of ours, so only whether there is any can be said.
    if not settings.packing or len(trainer.train_dataset) == 0:
        unfit_rows.check_left_out(trainer, *given, settings, max_length)
    else:
        unfit_rows.check_packed(trainer, max_length)
    return trainer


def training_rows(
    shape: data.Shape, examples: list[dict[str, Any]], settings: Settings, *, has_template: bool
) -> tuple[list[dict[str, Any]], bool]:
    """The rows as TRL takes them, and whether its loss must be masked turn by turn."""
    if shape != "text" and not has_template:
        raise data.DataError("train: its rows are messages, but the base has no chat template")
    if shape == "text":
        chat = settings.chat and has_template
        return [data.as_chat(example) for example in examples] if chat else examples, False
    if shape == "messages" and settings.loss_on == "completion":
        pairs = [data.split_last_turn(example) for example in examples]
        whole = [pair for pair in pairs if pair is not None]
        # One answer each: the same loss, from any template. With more turns the template must
        # mark the assistant's, or TRL must know it.
        return (whole, False) if len(whole) == len(examples) else (examples, True)
    return examples, False


def _check_turns(tokenizer: Any, *inputs: unfit_rows.Given) -> None:
    """Raises DataError: only a template that says which words are the assistant's can do it."""
    from trl.chat_template_utils import get_training_chat_template

    try:
        get_training_chat_template(tokenizer)
    except ValueError:
        several = next(
            unfit_rows.place(source, index)
            for rows, source in inputs
            for index, row in enumerate(rows)
            if data.split_last_turn(row) is None
        )
        raise data.DataError(
            f"{several}: messages has more answers than its last, but"
            " the base's chat template does not mark the assistant's words: put them between"
            " {% generation %} and {% endgeneration %} in chat_template.jinja, write a row for"
            " each answer, or write loss_on: all"
        ) from None


if __name__ == "__main__":
    training.run("sft", prepare, train)
