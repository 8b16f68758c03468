"""Ties an online trainer to the trial: health and alarms out, checkpoints between generations."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from transformers import TrainerControl, TrainerState, TrainingArguments

from inner_trials import distributed, health, reporting
from inner_trials.rollouts import RolloutWriter
from inner_trials.trainer_events import TrialEvents

STATE_FILE: Final = "watched.json"
"""In a checkpoint: what alarms and guards remember."""


class OnlineEvents(TrialEvents):
    """TrialEvents that also rings alarms and keeps what was sampled.

    `cycle` is the number of updates between two generations: what was sampled is not part of a
    checkpoint, so one is only made when all of it was used.
    """

    def __init__(self, alarms: Mapping[str, health.Alarm], *, cycle: int) -> None:
        super().__init__(health.REPORTED)
        self._panel = health.AlarmPanel(alarms)
        self._cycle = cycle
        self._trainer: Any = None
        self._writer: RolloutWriter | None = None
        self._heldout: Any = None

    def watch(self, trainer: Any, writer: RolloutWriter | None) -> None:
        self._trainer, self._writer = trainer, writer

    def watch_heldout(self, heldout: Any) -> None:
        self._heldout = heldout
        heldout.on_values = self.ring

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        resume = reporting.resume_dir()
        if resume is not None and (resume / STATE_FILE).is_file():
            self._recall(json.loads((resume / STATE_FILE).read_text(encoding="utf-8")))
        elif self._heldout is not None:
            self._heldout.measure(model, state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        # TRL logs None for a mean of nothing.
        known = {name: value for name, value in (logs or {}).items() if value is not None}
        if "loss" not in known:
            return
        super().on_log(args, state, control, logs=known, **kwargs)
        names = (*health.REPORTED.values(), "train/grad_norm")
        self.ring(state.global_step, self.latest(*names))

    def ring(self, step: int, values: Mapping[str, float]) -> None:
        """Report which alarms ring once these values are seen."""
        ringing = self._panel.see(values)
        reporting.report(step, ringing)
        for name in ringing:
            if name != "alarm/any":
                print(f"step {step}  {name}", flush=True)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step % self._cycle == 0 or state.global_step >= state.max_steps:
            super().on_step_end(args, state, control, **kwargs)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        written = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if distributed.is_first():
            (written / STATE_FILE).write_text(json.dumps(self._remembered()), encoding="utf-8")
        self._trainer.close_rollouts()
        if self._writer is not None:
            self._writer.keep_in(written)
        super().on_save(args, state, control, **kwargs)

    def _remembered(self) -> dict[str, Any]:
        best = None if self._heldout is None else self._heldout.best
        groups = self._trainer.groups
        choice = self._trainer.choice
        chosen = None if choice is None else choice.state()
        return {
            "alarms": self._panel.counts,
            "heldout": best,
            "groups": groups,
            "choice": chosen,
        }

    def _recall(self, kept: Mapping[str, Any]) -> None:
        self._panel.counts |= kept["alarms"]
        self._trainer.groups = kept["groups"]
        if self._trainer.choice is not None:
            self._trainer.choice.load(kept["choice"])
        if self._heldout is not None and kept["heldout"] is not None:
            value, proxy = kept["heldout"]
            self._heldout.best = (value, proxy)
