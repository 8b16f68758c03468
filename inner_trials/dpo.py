"""Direct preference optimisation with TRL: full, LoRA or QLoRA.

Run as `python -P -m inner_trials.dpo`. Inputs: `base`, a model's directory, and `train`, pairs of
a chosen and a rejected answer (inner_trials.pairs); optional: `heldout`, more pairs, `fixed`
(inner_trials.guards), `adapter` and `reference`, a model that is the reference in place of the
base. Every setting is a field of Settings. Output: `model/`, whole weights that any evaluator can
load, and `resume/`, the trainer's own checkpoint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from inner_trials import (
    adapters,
    models,
    pairs,
    pins,
    reporting,
    seeding,
    sharding,
    training,
    unfit_rows,
)
from inner_trials.settings import SettingsError, above, at_least, read_settings

LossType: TypeAlias = Literal[
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
]
DIFFERENCE_LOSSES: Final = frozenset(
    {"sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft"}
)
"""Those of the reward's difference, the only ones that other f-divergences make sense in."""
REPORTED: Final[Mapping[str, str]] = {
    f"{prefix}{theirs}": f"{scope}/{ours}"
    for prefix, scope in (("", "train"), ("eval_", "heldout"))
    for theirs, ours in {
        "rewards/accuracies": "preference_accuracy",
        "rewards/margins": "preference_margin",
        "rewards/chosen": "reward_chosen",
        "rewards/rejected": "reward_rejected",
        "logps/chosen": "logp_chosen",
        "logps/rejected": "logp_rejected",
    }.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(sharding.ShardedSettings, training.TrainingSettings):
    """All that a study may set or search."""

    learning_rate: float = above(0.0, default=1e-5)
    loss_type: LossType = "sigmoid"
    """`sigmoid` is DPO itself (Rafailov et al. 2023, equation 7)."""
    beta: float = above(0.0, default=0.1)
    """How dearly moving away from the reference is paid for; tau of `ipo`."""
    label_smoothing: float = at_least(0.0, default=0.0)
    """The share of pairs taken to be the wrong way round (`robust`, `exo_pair`, `aot`)."""
    sft_weight: float = at_least(0.0, default=0.0)
    """Adds so much of the chosen answers' own loss (RPO's term), against falling likelihoods."""
    f_divergence: Literal["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"] = (
        "reverse_kl"
    )
    reference: Literal["auto", "adapter", "copy", "precomputed"] = "auto"
    """`adapter`: the model without its adapter; `copy`: a second model; `precomputed`: the
    log-probabilities of all pairs are taken once, before training. `auto`: adapter if there is
    one, else copy."""


@dataclass(frozen=True, slots=True)
class Job:
    settings: Settings
    base: Path
    reference: Path | None
    """A model of its own; None: the base."""
    shape: pairs.Shape
    rows: list[dict[str, Any]]
    heldout: list[dict[str, Any]]
    seed: int
    source: Path | None = None
    """Where `rows` were read; None: they were made."""


def prepare(document: Mapping[str, Any]) -> Job:
    """Raises training.BAD_INPUT."""
    settings = read_settings(Settings, document)
    check_settings(settings)
    source = reporting.input_path("train")
    shape, rows = pairs.read_pairs(source)
    heldout = pairs.read_heldout(training.find_input("heldout"), shape)
    base = training.checked_base(settings)
    reference = _reference(settings, base)
    return Job(settings, base, reference, shape, rows, heldout, reporting.seed(), source)


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for what only together makes no sense."""
    loss, smoothing = settings.loss_type, settings.label_smoothing
    if loss == "exo_pair" and not 0.0 < smoothing < 1.0:
        raise SettingsError(
            f"options.label_smoothing: {smoothing} must be between 0 and 1 for loss_type exo_pair;"
            " its authors write 1e-3"
        )
    if smoothing >= 0.5 and loss != "exo_pair":
        raise SettingsError(f"options.label_smoothing: {smoothing} must be less than 0.5")
    if settings.f_divergence != "reverse_kl" and loss not in DIFFERENCE_LOSSES:
        raise SettingsError(
            f"options.f_divergence: {settings.f_divergence} needs a loss_type of the rewards'"
            f" difference: {', '.join(sorted(DIFFERENCE_LOSSES))}"
        )
    if settings.reference == "adapter" and settings.parameterization == "full":
        raise SettingsError(
            "options.reference: adapter needs one; write parameterization: lora, or reference:"
            " copy or precomputed"
        )


def _reference(settings: Settings, base: Path) -> Path | None:
    given = training.find_input("reference")
    if given is None:
        return None
    if settings.reference == "adapter":
        raise SettingsError(
            "options.reference: adapter means the base, but the study mounts an input reference;"
            " write copy or precomputed"
        )
    models.check_model(given)
    if pins.read_pins(given)["tokenizer"] != pins.read_pins(base)["tokenizer"]:
        raise models.ModelError(
            "reference: its tokenizer is not the base's, so that their probabilities are of"
            " different things; mount a model of the same family"
        )
    return given


def train(job: Job) -> bool:
    from inner_trials.trainer_events import TrialEvents

    events = TrialEvents(REPORTED)
    trainer = build_trainer(job)
    training.add_guards(trainer, job.settings, job.base)
    training.fit(trainer, events)
    training.save(trainer, job.settings, job.base, reporting.model_dir())
    return events.is_stopped


def build_trainer(job: Job) -> Any:
    """TRL's DPOTrainer on the checked pairs."""
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    settings = job.settings
    seeding.seed_everything(job.seed)
    tokenizer = models.load_tokenizer(job.base)
    rows, heldout = (
        pairs.in_template(
            job.shape,
            [{k: v for k, v in pair.items() if k != "margin"} for pair in side],
            chat=settings.chat,
            has_template=tokenizer.chat_template is not None,
        )
        for side in (job.rows, job.heldout)
    )
    max_length = models.row_tokens(settings.max_length, job.base)
    arguments = training.trl_arguments(settings, job.seed, max_length=max_length)
    if heldout:
        arguments |= training.evaluation_arguments(settings)
    given = (rows, job.source), (heldout, training.find_input("heldout"))
    with unfit_rows.naming(tokenizer, *given):
        trainer = DPOTrainer(
            adapters.load_base(settings, job.base),
            _reference_model(job),
            DPOConfig(
                **arguments,
                **_losses(settings),
                beta=settings.beta,
                label_smoothing=settings.label_smoothing,
                f_divergence_type=settings.f_divergence,
                precompute_ref_log_probs=settings.reference == "precomputed",
            ),
            train_dataset=Dataset.from_list(rows),
            eval_dataset=Dataset.from_list(heldout) if heldout else None,
            processing_class=tokenizer,
            peft_config=adapters.lora_config(settings),
        )
    adapters.restore_precision(trainer.model, settings)
    unfit_rows.check_left_out(trainer, *given, settings, max_length)
    return trainer


def _reference_model(job: Job) -> Any:
    """The fixed copy of the reference; None where the trainer needs none."""
    if job.reference is not None:
        return models.load_model(job.reference)
    settings = job.settings
    has_adapter = settings.parameterization != "full"
    if settings.reference == "precomputed" or (settings.reference == "auto" and has_adapter):
        return None  # taken from the model before training, or from it without its adapter
    return None if settings.reference == "adapter" else adapters.load_base(settings, job.base)


def _losses(settings: Settings) -> dict[str, Any]:
    if settings.sft_weight == 0:
        return {"loss_type": [settings.loss_type]}
    return {"loss_type": [settings.loss_type, "sft"], "loss_weights": [1.0, settings.sft_weight]}


if __name__ == "__main__":
    training.run("dpo", prepare, train)
