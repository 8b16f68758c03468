"""Ties a TRL trainer to the trial's contract: values out, checkpoints kept, stop obeyed."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from inner_trials import reporting

REPORTED: Final[Mapping[str, str]] = {
    "loss": "train/loss",
    "grad_norm": "train/grad_norm",
    "learning_rate": "train/learning_rate",
    "mean_token_accuracy": "train/mean_token_accuracy",
    "entropy": "train/entropy",
    "num_tokens": "train/tokens",
}


class TrialEvents(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """Add it to any transformers trainer whose `output_dir` lies in the trial's output."""

    def __init__(self) -> None:
        self.is_stopped = False
        """Whether training was left early because the trial was asked to stop."""
        self._tokens_then = 0.0
        self._clock_then = time.monotonic()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._clock_then = time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        values = {REPORTED[n]: v for n, v in (logs or {}).items() if n in REPORTED}
        if not values:
            return
        now = time.monotonic()
        tokens = float(values.get("train/tokens", self._tokens_then))
        if tokens > self._tokens_then and now > self._clock_then:
            values["train/tokens_per_s"] = (tokens - self._tokens_then) / (now - self._clock_then)
        self._tokens_then, self._clock_then = tokens, now
        reporting.report(state.global_step, values)
        shown = "  ".join(f"{name.split('/')[-1]} {float(v):.4g}" for name, v in values.items())
        print(f"step {state.global_step}/{state.max_steps}  {shown}", flush=True)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if state.global_step >= state.max_steps:
            # All is done: what counts is the model, and a checkpoint of the end helps nobody.
            control.should_save = False
        elif reporting.should_stop():
            control.should_save = True
            control.should_training_stop = True
            self.is_stopped = True

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        written = Path(args.output_dir) / f"checkpoint-{state.global_step}"

        def move(directory: Path) -> None:
            # A rename within the trial's output: no byte is copied.
            for path in sorted(written.iterdir()):
                path.rename(directory / path.name)
            written.rmdir()

        reporting.save_checkpoint(move)
