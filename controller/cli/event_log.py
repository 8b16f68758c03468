"""The progress of `arl run` away from a terminal: one line for each thing that happens."""

import time
from dataclasses import dataclass, field

from controller.cli.live import score_text, time_left
from controller.cli.progress import Facts, Watch, gate_progress, outcome_of, why
from controller.cli.text import clipped, clock, number, params, plain
from controller.steps.view import Measured, StudyView
from controller.worker.driver import StudyDriver
from ledger.records import Split
from ledger.search import FinishedTrial
from ledger.states import StudyState


@dataclass(slots=True)
class _Told:
    """What has been printed of a study."""

    state: StudyState | None = None
    waits: bool = False
    finished: int = 0
    baselines: int = 0
    replays: dict[str, int] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)


class EventLog:
    """Prints what changed since the last tick."""

    def __init__(self, watches: dict[str, Watch]) -> None:
        self._watches = watches
        self._told: dict[str, _Told] = {}

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def on_tick(self, driver: StudyDriver) -> None:
        view = driver.view
        told = self._told.get(driver.study_id)
        if told is None:
            # What was there before is told by `arl show`; only news is told here.
            told = self._told[driver.study_id] = _Told(
                finished=len(view.finished),
                baselines=len(view.baselines),
                replays={family: len(runs) for family, runs in view.replays.items()},
                families={f.id: str(f.state) for f in view.families.values()},
            )
        lines = list(self._news(view, told))
        if view.study.state is not told.state:
            told.state = view.study.state
            lines.append(f"study {plain(view.study.name)} is {view.study.state} {_because(view)}")
            if view.study.state is StudyState.DRAINING:
                lines.append(self._standing(driver))
        if view.proposer_waits is not told.waits:
            told.waits = view.proposer_waits
            what = f"waits: {clipped(view.study.detail, 500)}" if told.waits else "goes on"
            lines.append(f"study {plain(view.study.name)} {what}")
        for line in lines:
            print(f"{clock(time.time())} {view.study.id} {line.rstrip()}", flush=True)

    def _news(self, view: StudyView, told: _Told) -> list[str]:
        metric = clipped(view.objective.metric, 40)
        lines = [_baseline(metric, m) for m in view.baselines[told.baselines :]]
        lines += [_search(metric, t) for t in view.finished[told.finished :]]
        told.baselines, told.finished = len(view.baselines), len(view.finished)
        for family_id, runs in view.replays.items():
            lines += [_replay(m) for m in runs[told.replays.get(family_id, 0) :]]
            told.replays[family_id] = len(runs)
        for family in view.families.values():
            if told.families.get(family.id) != str(family.state):
                told.families[family.id] = str(family.state)
                gate = gate_progress(view)
                stage = f", {gate.needed} runs in {gate.stage}" if gate is not None else ""
                reason = f": {family.reason}" if family.reason is not None else stage
                lines.append(f"replay family {family.number} is {family.state}{reason}")
        return lines

    def _standing(self, driver: StudyDriver) -> str:
        watch = self._watches.setdefault(driver.study_id, Watch())
        return standing(watch.read(driver.snapshot()))


def standing(facts: Facts) -> str:
    """Counts, best so far and time left in one line."""
    counts = ", ".join(f"{count} {name}" for name, count in sorted(facts.outcomes.items()))
    best = (
        "none" if facts.best is None else score_text(facts.metric, facts.best, facts.noise_floor)
    )
    left = "" if facts.left_s is None else f"; about {time_left(facts.left_s)} left"
    return f"{facts.search_done} trials done ({counts or 'none'}); best {best}{left}"


def _because(view: StudyView) -> str:
    reason = why(view)
    return f"({clipped(reason, 300)})" if reason else ""


def _search(metric: str, trial: FinishedTrial) -> str:
    score = "" if trial.value is None else f" {metric}={number(trial.value)}"
    return (
        f"trial {trial.number} {outcome_of(trial)}:{score} {trial.reason} {params(trial.params)}"
    )


def _baseline(metric: str, run: Measured) -> str:
    value = run.values.get(Split.SEARCH)
    score = f"{metric}={number(value)}" if value is not None else f"{run.state}"
    return f"baseline {_number(run)}: {score} {run.reason}"


def _replay(run: Measured) -> str:
    scores = " ".join(f"{split}={number(value)}" for split, value in run.values.items())
    return f"replay {_number(run)} {run.stage}: {scores or run.state} {run.reason}"


def _number(run: Measured) -> str:
    return run.trial_id.rpartition("-")[2]
