"""Ties a TRL trainer to the trial's contract: values out, checkpoints kept, stop obeyed."""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from inner_trials import distributed, facts, failures, guards, reporting, usage

REPORTED: Final[Mapping[str, str]] = {
    "loss": "train/loss",
    "grad_norm": "train/grad_norm",
    "learning_rate": "train/learning_rate",
    "mean_token_accuracy": "train/mean_token_accuracy",
    "entropy": "train/entropy",
    "num_tokens": "train/tokens",
    "eval_loss": "heldout/loss",
    "eval_mean_token_accuracy": "heldout/mean_token_accuracy",
}
_MUST_BE_FINITE: Final = ("train/loss",)


class TrialEvents(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Add it to any transformers trainer whose `output_dir` lies in the trial's output.

    `reported` names, beside REPORTED, what of the trainer's log is reported and under what name.
    """

    def __init__(self, reported: Mapping[str, str] | None = None) -> None:
        self.is_stopped = False
        """Whether training was left early because the trial was asked to stop."""
        self._reported = {**REPORTED, **(reported or {})}
        self._latest: dict[str, float] = {}
        self._tokens_then = 0.0
        self._clock_then = time.monotonic()
        self._has_begun = False
        self._keep: Callable[[Path], None] = lambda _: None

    def also_keep(self, write: Callable[[Path], None]) -> None:
        """Have `write(directory)` add to every resume checkpoint."""
        self._keep = write

    def latest(self, *names: str) -> dict[str, float]:
        """The last value reported of each of these metrics, where there was one."""
        return {name: self._latest[name] for name in names if name in self._latest}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._clock_then = time.monotonic()

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if not self._has_begun:
            self._has_begun = True
            reporting.report(state.global_step, {"run/start_up_s": usage.process_age_s()})

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        names = self._reported
        values = {names[n]: v for n, v in (logs or {}).items() if n in names}
        if not values:
            return
        now = time.monotonic()
        tokens = float(values.get("train/tokens", self._tokens_then))
        if tokens > self._tokens_then and now > self._clock_then:
            values["train/tokens_per_s"] = (tokens - self._tokens_then) / (now - self._clock_then)
        self._tokens_then, self._clock_then = tokens, now
        self._latest |= {name: float(value) for name, value in values.items()}
        if any(name.startswith("heldout/") for name in values):
            values |= guards.overfit(self._latest)
        reporting.report(state.global_step, {**values, **usage.memory()})
        shown = "  ".join(f"{name.split('/')[-1]} {float(v):.4g}" for name, v in values.items())
        print(f"step {state.global_step}/{state.max_steps}  {shown}", flush=True)
        for name in _MUST_BE_FINITE:
            if not math.isfinite(float(values.get(name, 0.0))):
                raise failures.not_finite(name, float(values[name]), state.global_step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.global_step >= state.max_steps:
            # The last steps count, too, where report_every divides them by nothing: a loss that
            # became NaN in them must not end as a model.
            control.should_log = True
            # All is done: what counts is the model, and a checkpoint of the end helps nobody.
            control.should_save = False
        elif distributed.agreed(said=reporting.should_stop()):
            control.should_save = True
            control.should_training_stop = True
            self.is_stopped = True

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        written = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        facts.note_each("checkpoints", "saved", state.global_step)

        def move(directory: Path) -> None:
            # A rename within the trial's output: no byte is copied.
            for path in sorted(written.iterdir()):
                path.rename(directory / path.name)
            written.rmdir()
            self._keep(directory)

        with distributed.first_alone() as is_first:
            if is_first:
                reporting.save_checkpoint(move)
