"""Supervised fine-tuning of a causal language model with TRL, full or LoRA.

Run as `python -P -m inner_trials.sft`. Inputs: `base`, a model's directory, and `train`, JSON
Lines of prompt and completion (texts, or lists of messages) or of messages. Every setting is a
field of Settings; params.json's `options` fix some and its `parameters` override them. Output:
`model/`, whole weights that any evaluator can load, and `resume/`, the trainer's own checkpoint.
"""

import gc
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from inner_trials import data, models, reporting, seeding
from inner_trials.contract import EXIT_STOPPED
from inner_trials.settings import SettingsError, above, at_least, read_settings

EXIT_BAD_INPUT: Final = 2
BAD_INPUT: Final = (SettingsError, data.DataError, models.ModelError, reporting.MissingInput)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that a study may set or search."""

    # optimisation
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
    # what is trained
    parameterization: Literal["full", "lora"] = "full"
    lora_r: int = at_least(1, default=16)
    lora_alpha: float = above(0.0, default=32.0)
    lora_dropout: float = at_least(0.0, default=0.0)
    lora_target: str = "all-linear"
    """`all-linear`, or names of modules with commas between."""
    keep_adapter: bool = False
    """Also save the LoRA adapter alone, below model/adapter."""
    # what it is trained on
    max_length: int = at_least(2, default=1024)
    """Tokens; longer rows are cut at the end."""
    packing: bool = False
    loss_on: Literal["completion", "all"] = "completion"
    """`completion`: prompts (or all but the assistant's turns) add nothing to the loss."""
    chat: bool = True
    """Wrap pairs of plain texts as user and assistant messages if the tokenizer has a template."""
    # how it is run
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """`auto`: bf16 on a GPU that has it, else fp32. Lower ones are mixed with fp32 weights."""
    gradient_checkpointing: bool = False
    report_every: int = at_least(1, default=10)
    save_every: int = at_least(0, default=0)
    """Steps between resume checkpoints; 0: only when asked to stop."""


def main() -> int:
    try:
        document = reporting.document()
        settings = read_settings(Settings, document)
        base, train = reporting.input_path("base"), reporting.input_path("train")
        shape, examples = data.read_examples(train)
        models.check_model(base)
    except BAD_INPUT as error:
        return refuse(error)
    with tempfile.TemporaryDirectory(dir=document.get("workspace")) as scratch:
        seeding.prepare_environment(Path(scratch))
        # The imports below make millions of objects that stay; collecting in between costs a
        # fifth of a short trial.
        gc.disable()
        try:
            return train_and_save(settings, base, shape, examples, reporting.seed())
        except BAD_INPUT as error:
            return refuse(error)


def refuse(error: Exception) -> int:
    """One line for the person who wrote the study, and the exit status that goes with it."""
    print(f"sft: {error}", file=sys.stderr)
    return EXIT_BAD_INPUT


def train_and_save(
    settings: Settings, base: Path, shape: data.Shape, examples: list[dict[str, Any]], seed: int
) -> int:
    """Train from the base, or on from this trial's latest checkpoint; returns the exit status."""
    from inner_trials.trainer_events import TrialEvents

    events = TrialEvents()
    trainer = build_trainer(settings, base, shape, examples, seed)
    trainer.add_callback(events)
    gc.freeze()
    gc.enable()
    print(f"{seeding.describe_runtime()}  rows {len(trainer.train_dataset)}", flush=True)
    resume = reporting.resume_dir()
    trainer.train(resume_from_checkpoint=str(resume) if resume is not None else None)
    save_model(trainer, settings)
    shutil.rmtree(trainer.args.output_dir, ignore_errors=True)
    return EXIT_STOPPED if events.is_stopped else 0


def build_trainer(
    settings: Settings, base: Path, shape: data.Shape, examples: list[dict[str, Any]], seed: int
) -> Any:
    """TRL's SFTTrainer on the checked rows."""
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import SFTTrainer

    seeding.seed_everything(seed)
    tokenizer = models.load_tokenizer(base)
    has_template = tokenizer.chat_template is not None
    rows, by_turns = training_rows(shape, examples, settings, has_template=has_template)
    trainer = SFTTrainer(
        models.load_model(base),
        trainer_config(settings, seed, by_turns=by_turns),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=lora_config(settings) if settings.parameterization == "lora" else None,
    )
    trainer.remove_callback(PrinterCallback)
    if len(trainer.train_dataset) == 0:
        raise data.DataError(
            f"train: with max_length {settings.max_length} no row has anything left to learn from"
        )
    return trainer


def trainer_config(settings: Settings, seed: int, *, by_turns: bool) -> Any:
    """TRL's configuration with every default that matters written out."""
    import torch
    from trl import SFTConfig

    on_gpu = torch.cuda.is_available()
    precision = settings.precision
    if precision == "auto":
        precision = "bf16" if on_gpu and torch.cuda.is_bf16_supported() else "fp32"
    if precision == "fp16" and not on_gpu:
        raise SettingsError("options.precision: fp16 needs a GPU; write fp32, bf16 or auto")
    return SFTConfig(
        output_dir=str(reporting.output_dir() / "trainer"),
        learning_rate=settings.learning_rate,
        max_steps=settings.max_steps,
        per_device_train_batch_size=settings.per_device_train_batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation_steps,
        warmup_steps=settings.warmup_steps,
        lr_scheduler_type=settings.lr_scheduler_type,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        max_length=settings.max_length,
        packing=settings.packing,
        completion_only_loss=settings.loss_on == "completion" and not by_turns,
        assistant_only_loss=by_turns,
        bf16=precision == "bf16",
        fp16=precision == "fp16",
        activation_checkpointing=settings.gradient_checkpointing,
        use_cpu=not on_gpu,
        dataloader_pin_memory=on_gpu,
        seed=seed,
        data_seed=seed,
        logging_steps=settings.report_every,
        # By default a NaN loss is reported as the last finite one.
        logging_nan_inf_filter=False,
        save_strategy="steps" if settings.save_every else "no",
        save_steps=settings.save_every or settings.max_steps,
        report_to=[],
        disable_tqdm=True,
    )


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


def lora_config(settings: Settings) -> Any:
    from peft import LoraConfig

    names = [name.strip() for name in settings.lora_target.split(",")]
    return LoraConfig(
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=names[0] if len(names) == 1 else names,
        task_type="CAUSAL_LM",
    )


def save_model(trainer: Any, settings: Settings) -> None:
    """Write model/: plain weights, LoRA merged into them, with config and tokenizer."""
    directory = reporting.model_dir()
    model = trainer.accelerator.unwrap_model(trainer.model)
    if settings.parameterization == "lora":
        if settings.keep_adapter:
            model.save_pretrained(directory / "adapter")
        model = model.merge_and_unload()
    model.save_pretrained(directory)
    trainer.processing_class.save_pretrained(directory)
    for path in directory.rglob("*.safetensors"):
        path.chmod(0o644)  # written for the owner alone, but the evaluator may be another user


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything is on disk; taking torch apart object by object would only cost time.
    os._exit(status)
