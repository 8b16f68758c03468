"""What every training program shares: settings, how it starts, refuses, trains and saves.

A program is `prepare`, which reads settings and data with the standard library alone and raises
BAD_INPUT for what cannot be trained on, and `train`, which may import anything. `run` makes a
process of the two.
"""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar

from inner_trials import (
    adapters,
    data,
    distributed,
    facts,
    failures,
    models,
    pins,
    ranks,
    reporting,
    seeding,
    sharding,
)
from inner_trials.contract import EXIT_BAD_INPUT
from inner_trials.settings import SettingsError, above, at_least

if TYPE_CHECKING:
    from inner_trials.trainer_events import TrialEvents

T = TypeVar("T")

BAD_INPUT: Final = (SettingsError, data.DataError, models.ModelError, reporting.MissingInput)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings(adapters.AdapterSettings):
    """What a study may set or search in any training program."""

    # optimisation, by AdamW
    learning_rate: float = above(0.0, default=2e-4)
    max_steps: int = at_least(1, default=100)
    per_device_train_batch_size: int = at_least(1, default=8)
    gradient_accumulation_steps: int = at_least(1, default=1)
    warmup_steps: int = at_least(0, default=0)
    lr_scheduler_type: Literal[
        "constant", "constant_with_warmup", "linear", "cosine", "polynomial", "inverse_sqrt"
    ] = "constant_with_warmup"
    weight_decay: float = at_least(0.0, default=0.0)
    max_grad_norm: float = at_least(0.0, default=1.0)
    """0 turns clipping off."""
    # what it is trained on
    max_length: int = at_least(2, default=1024)
    """Tokens of prompt and answer; never more than the base has positions."""
    too_long: Literal["refuse", "drop"] = "refuse"
    """What to do with a row that max_length leaves nothing to learn from."""
    chat: bool = True
    """Wrap plain texts as user and assistant messages if the tokenizer has a template."""
    tokenizer_sha256: str = ""
    """Pins the base's tokenizer: another one is refused. Empty: not pinned."""
    chat_template_sha256: str = ""
    """Pins the base's chat template likewise."""
    # how it is run
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """`auto`: bf16 on a GPU that has it, else fp32. Lower ones are mixed with fp32 weights."""
    gradient_checkpointing: bool = False
    report_every: int = at_least(1, default=10)
    save_every: int = at_least(0, default=0)
    """Steps between resume checkpoints; 0: only when asked to stop."""
    guard_every: int = at_least(0, default=0)
    """Steps between measurements on the inputs `heldout` and `fixed`; 0: only at the end."""


def run(
    name: str, prepare: Callable[[Mapping[str, Any]], T], train: Callable[[T], bool]
) -> NoReturn:
    """Be the program `name`: `execute` it and leave the process."""
    status = execute(name, prepare, train)
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is on disk; taking torch apart object by object would only cost time.
    os._exit(status)


def execute(
    name: str, prepare: Callable[[Mapping[str, Any]], T], train: Callable[[T], bool]
) -> int:
    """Prepare a job from params.json and train it; returns the exit status.

    `train` returns whether it stopped early because it was asked to. What is wrong with the
    inputs, a loss that is no number and a lack of memory are one line and an exit status of
    their own; only a mistake of the program's is a traceback.
    """
    facts.begin()
    try:
        document = reporting.document()
        job = prepare(document)
        count = sharding.processes(getattr(job, "settings", None))
    except BAD_INPUT as error:
        return refuse(name, error)
    with tempfile.TemporaryDirectory(dir=document.get("workspace")) as scratch:
        if count and not ranks.is_rank():
            return ranks.launch(name, count, Path(scratch))
        seeding.prepare_environment(Path(scratch))
        # The imports below make millions of objects that stay; collecting in between costs a
        # fifth of a short trial.
        gc.disable()
        try:
            if count:
                distributed.join()
            return facts.end(name, job, is_stopped=train(job))
        except BAD_INPUT as error:
            return refuse(name, error)
        except Exception as error:
            failure = failures.typed(error)
            if failure is None:
                raise
            return refuse(name, failure, status=failure.status)


def refuse(name: str, error: Exception, *, status: int = EXIT_BAD_INPUT) -> int:
    """One line for the person who wrote the study, and the exit status that goes with it."""
    print(f"{name}: {error}", file=sys.stderr)
    return status


def checked_base(settings: TrainingSettings) -> Path:
    """The input `base`, once it is a model with the tokenizer and template it should have.

    Raises:
        ModelError, MissingInput: it is not.
    """
    base = reporting.input_path("base")
    models.check_model(base)
    pins.verify_pins(
        base,
        tokenizer=settings.tokenizer_sha256,
        chat_template=settings.chat_template_sha256,
    )
    pins.check_vocabulary(base)
    adapters.check_adapter(settings, base)
    return base


def find_input(name: str) -> Path | None:
    """An input that a study may leave out."""
    try:
        return reporting.input_path(name)
    except reporting.MissingInput:
        return None


def add_guards(
    trainer: Any,
    settings: TrainingSettings,
    base: Path,
    on_values: Callable[[int, Mapping[str, float]], None] = lambda step, values: None,
) -> None:
    """Watch the input `fixed`, where there is one; `on_values` also gets what is found, by step.
    Call before a checkpoint is loaded."""
    path = find_input("fixed")
    if path is None:
        return
    from inner_trials import guards

    fixed = guards.FixedSlice(
        path,
        trainer.processing_class,
        chat=settings.chat,
        max_length=models.row_tokens(settings.max_length, base),
    )
    every = settings.guard_every
    trainer.add_callback(guards.Forgetting(fixed, trainer.model, every=every, on_values=on_values))


def trl_arguments(settings: TrainingSettings, seed: int, *, max_length: int) -> dict[str, Any]:
    """What all of TRL's configurations take, with every default that matters written out.

    Raises:
        SettingsError: this machine cannot do it.
    """
    import torch

    on_gpu = torch.cuda.is_available()
    precision = settings.precision
    if precision == "auto":
        precision = "bf16" if on_gpu and torch.cuda.is_bf16_supported() else "fp32"
    if precision == "fp16" and not on_gpu:
        raise SettingsError("options.precision: fp16 needs a GPU; write fp32, bf16 or auto")
    return {
        "output_dir": str(reporting.output_dir() / "trainer"),
        "learning_rate": settings.learning_rate,
        "max_steps": settings.max_steps,
        "per_device_train_batch_size": settings.per_device_train_batch_size,
        "gradient_accumulation_steps": settings.gradient_accumulation_steps,
        "warmup_steps": settings.warmup_steps,
        "lr_scheduler_type": settings.lr_scheduler_type,
        "weight_decay": settings.weight_decay,
        "max_grad_norm": settings.max_grad_norm,
        "max_length": max_length,
        "bf16": precision == "bf16",
        "fp16": precision == "fp16",
        "activation_checkpointing": settings.gradient_checkpointing,
        "use_cpu": not on_gpu,
        "dataloader_pin_memory": on_gpu,
        "seed": seed,
        "data_seed": seed,
        "logging_steps": settings.report_every,
        # By default a NaN loss is reported as the last finite one.
        "logging_nan_inf_filter": False,
        "save_strategy": "steps" if settings.save_every else "no",
        "save_steps": settings.save_every or settings.max_steps,
        "report_to": [],
        "disable_tqdm": True,
        **sharding.arguments(settings, recomputes=settings.gradient_checkpointing),
    }


def evaluation_arguments(settings: TrainingSettings) -> dict[str, Any]:
    """Those of a trainer that is given held-out rows."""
    return {
        "eval_strategy": "steps",
        "eval_steps": settings.guard_every or settings.max_steps,
        "per_device_eval_batch_size": settings.per_device_train_batch_size,
    }


def fit(trainer: Any, events: "TrialEvents") -> None:
    """Train from the base, or on from this trial's latest checkpoint, whichever number of
    processes wrote it.

    Raises:
        DataError: there are too few rows for a single update.
    """
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(events)
    gc.freeze()
    gc.enable()
    print(f"{seeding.describe_runtime()}  rows {len(trainer.train_dataset)}", flush=True)
    resume = reporting.resume_dir()
    if resume is not None and not (resume / "trainer_state.json").is_file():
        resume = None
    distributed.require(trainer, resume)
    facts.note("checkpoints", resumed_from=None if resume is None else resume.name, saved=[])
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    done, wanted = trainer.state.global_step, trainer.args.max_steps
    facts.note("checkpoints", last_step=done)
    if done < wanted and not events.is_stopped:
        # The trainer takes no incomplete batch, and ends without a word when there is no other.
        raise data.DataError(
            f"train: {done} of {wanted} updates were made: its {len(trainer.train_dataset)} rows"
            " are too few for one batch; add rows, or lower per_device_train_batch_size,"
            " gradient_accumulation_steps or steps_per_generation"
        )


def save(
    trainer: Any,
    settings: TrainingSettings,
    base: Path,
    directory: Path,
    *,
    load: Callable[[Any, Path], Any] = adapters.load_base,
) -> None:
    """`save_model` of a trainer's model, by the first rank. The trainer's own files go.

    `load` made the model from settings and base; where no rank has it whole it is made again.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    if sharding.trainer_of(settings) != "single":
        model = distributed.whole_model(trainer, lambda: load(settings, base))
    if model is not None:
        save_model(model, trainer.processing_class, settings, base, directory)
        shutil.rmtree(trainer.args.output_dir, ignore_errors=True)


def save_model(
    model: Any, tokenizer: Any, settings: TrainingSettings, base: Path, directory: Path
) -> None:
    """Write a model's directory: plain weights, an adapter merged into them, with config,
    tokenizer and pins."""
    if settings.parameterization != "full":
        if settings.keep_adapter:
            adapters.save_adapter(model, base, directory / "adapter")
        model = adapters.merged(model, settings)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    pins.write_pins(directory)
    for path in directory.rglob("*.safetensors"):
        path.chmod(0o644)  # written for the owner alone, but the evaluator may be another user
