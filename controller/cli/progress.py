"""What a person wants to know of a study under way, read from its worker's view."""

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from controller.decisions.families import Stage
from controller.decisions.profiles import PROFILES, gate_runs_bounds, read_profile
from controller.steps.context import StepContext
from controller.steps.propose import baselines_wanted
from controller.steps.view import LiveTrial, StudyView
from evaluator.objective import is_better
from ledger import summaries
from ledger.finished_trials import Outcome, outcomes_of
from ledger.records import (
    AttemptKind,
    BudgetLine,
    Family,
    Params,
    Resource,
    TrialKind,
)
from ledger.search import FinishedTrial
from ledger.states import AttemptState, FamilyState, Reason, StudyState, TrialState

RUNNING_SHOWN: Final = 12
LATEST_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Best:
    """The best score a search trial got; `kept` when screening thought it a real step."""

    number: int
    candidate_id: str
    params: Params
    value: float
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrial:
    number: int
    kind: TrialKind
    stage: str | None
    doing: str
    """`train`, `evaluate search`, `waiting`, …"""
    elapsed_s: float | None
    reported: tuple[str, int, float] | None
    """Metric, step and value it told last: of the objective, else of a loss, else of any."""


@dataclass(frozen=True, slots=True)
class GateProgress:
    """How far a replay family has come."""

    stage: str
    done: int
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    study_id: str
    name: str
    state: StudyState
    why: str
    metric: str
    outcomes: Counter[str]
    search_done: int
    search_limit: int | None
    baselines_done: int
    baselines_wanted: int
    baseline_mean: float | None
    best: Best | None
    noise_floor: float
    running: tuple[RunningTrial, ...]
    running_total: int
    budgets: tuple[BudgetLine, ...]
    gate: GateProgress | None
    left_s: tuple[float, float] | None
    """At least and at most, as far as the trials so far tell."""


def outcome_of(trial: FinishedTrial | Outcome) -> str:
    """One word for how a search trial ended."""
    if trial.state is not TrialState.COMPLETE:
        return str(trial.state)
    if trial.reason is Reason.DUPLICATE:
        return "served"
    return "kept" if trial.kept else "discarded"


@dataclass(slots=True)
class Watch:
    """Follows one study's view; what it keeps does not grow with the study."""

    outcomes: Counter[str] = field(default_factory=Counter)
    best: Best | None = None
    started: dict[str, float] = field(default_factory=dict)
    """Wall-clock start of attempts that run, by id."""
    latest: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    """What running trials told last, as of at most a second ago."""
    _seen: int = 0
    _read_at: float = 0.0

    def read(self, ctx: StepContext) -> Facts:
        """The study as it is now."""
        view = ctx.view
        self._count(view)
        self._note_starts(view)
        trials = view.budgets.get(Resource.TRIALS)
        limit = trials.limit if trials is not None else None
        baseline = ctx.baseline_values()
        live = sorted(view.live.values(), key=lambda t: t.number)
        self._read_latest(ctx, [trial.id for trial in live[:RUNNING_SHOWN]])
        return Facts(
            study_id=view.study.id,
            name=view.study.name,
            state=view.study.state,
            why=why(view),
            metric=view.objective.metric,
            outcomes=self.outcomes.copy(),
            search_done=len(view.finished),
            search_limit=None if limit is None else round(limit),
            baselines_done=len(view.baselines),
            baselines_wanted=max(baselines_wanted(view), len(view.baselines)),
            baseline_mean=sum(baseline) / len(baseline) if baseline else None,
            best=self.best,
            noise_floor=ctx.noise_floor(),
            running=tuple(self._running(trial) for trial in live[:RUNNING_SHOWN]),
            running_total=len(live),
            budgets=tuple(
                line
                for name, line in _with_wall_time(ctx)
                if name is not Resource.TRIALS and line.limit is not None
            ),
            gate=gate_progress(view),
            left_s=time_left(ctx),
        )

    def _count(self, view: StudyView) -> None:
        best = None if self.best is None else self.best.value
        best_at: int | None = None
        for place, told in enumerate(outcomes_of(view.finished, self._seen), self._seen):
            self.outcomes[outcome_of(told)] += 1
            value = told.value
            if value is None or not math.isfinite(value):
                continue
            if best is None or is_better(value, best, view.objective.direction):
                best, best_at = value, place
        if best_at is not None and best is not None:
            trial = view.finished[best_at]
            self.best = Best(trial.number, trial.candidate_id, trial.params, best, trial.kept)
        self._seen = len(view.finished)

    def _note_starts(self, view: StudyView) -> None:
        running = {a.id for a in view.attempts() if a.state is AttemptState.RUNNING}
        for attempt_id in self.started.keys() - running:
            del self.started[attempt_id]
        now = time.time()
        for attempt_id in running:
            self.started.setdefault(attempt_id, now)

    def _read_latest(self, ctx: StepContext, trial_ids: list[str]) -> None:
        now = time.monotonic()
        if now - self._read_at < LATEST_EVERY_S or not trial_ids:
            return
        self._read_at = now
        with ctx.ledger.read() as session:
            values = summaries.latest_values(session, trial_ids)
        objective = ctx.view.objective.metric
        self.latest = {
            trial_id: min(
                told, key=lambda one: (one[0] != objective, "loss" not in one[0], -one[1])
            )
            for trial_id, told in values.items()
        }

    def _running(self, trial: LiveTrial) -> RunningTrial:
        attempt = trial.attempt
        started = self.started.get(attempt.id) if attempt is not None else None
        return RunningTrial(
            number=trial.number,
            kind=trial.kind,
            stage=trial.stage,
            doing=_doing(trial),
            elapsed_s=None if started is None else max(0.0, time.time() - started),
            reported=self.latest.get(trial.id),
        )


def _doing(trial: LiveTrial) -> str:
    attempt = trial.attempt
    if attempt is None:
        return "waiting"
    if attempt.kind is AttemptKind.EVALUATE:
        return "measure" if attempt.split is None else f"evaluate {attempt.split}"
    return str(attempt.kind)


def _with_wall_time(ctx: StepContext) -> list[tuple[Resource, BudgetLine]]:
    """The budgets, wall time as it is this moment."""
    lines = dict(ctx.view.budgets)
    wall = lines.get(Resource.WALL_S)
    if wall is not None:
        lines[Resource.WALL_S] = BudgetLine(
            resource=wall.resource,
            limit=wall.limit,
            spent=ctx.active_s(),
            reserved=0.0,
            overrun=wall.overrun,
        )
    return list(lines.items())


def why(view: StudyView) -> str:
    """Why the study is in its state, as recorded."""
    study = view.study
    parts = [str(study.reason)] if study.reason is not None else []
    return ": ".join([*parts, study.detail] if study.detail else parts)


def open_family(view: StudyView) -> Family | None:
    return next((f for f in view.families.values() if f.state is FamilyState.OPEN), None)


def gate_progress(view: StudyView) -> GateProgress | None:
    """The stage the open family is in, and how many of its runs have ended."""
    family = open_family(view)
    if family is None:
        return None
    profile = read_profile(family.profile)
    needed = {
        Stage.POOL: max(0, profile.n0 - len(family.pool)),
        Stage.STAGE_1: min(profile.m, len(family.candidates)) * profile.k1,
        Stage.STAGE_2: profile.k2,
        Stage.CONFIRM: profile.n_new + profile.n_old,
    }
    done = Counter((m.stage or "").partition(":")[0] for m in view.replays.get(family.id, ()))
    live = {(t.stage or "").partition(":")[0] for t in view.live.values()}
    reached = [s for s in Stage if done[s] or s in live] or [Stage.STAGE_1]
    stage = reached[-1]
    return GateProgress(str(stage), min(done[stage], needed[stage]), needed[stage])


def time_left(ctx: StepContext) -> tuple[float, float] | None:
    """Least and most, from the median trial so far; None before the first or without a limit."""
    view = ctx.view
    if not view.durations or view.study.state in (StudyState.PREPARING, StudyState.SUBMITTED):
        return None
    one_s = median(view.durations)
    search = _search_left(ctx, one_s)
    if search is None:
        return None
    least, most = _gate_left(view)
    turns = math.ceil(search / view.spec.parallel) * one_s
    return turns + least * one_s / view.spec.parallel, turns + most * one_s / view.spec.parallel


def _search_left(ctx: StepContext, one_s: float) -> float | None:
    """Search and baseline trials still to come, at most."""
    view = ctx.view
    if view.study.state not in (StudyState.RUNNING, StudyState.PAUSED):
        return float(len(view.live) if view.study.state is StudyState.DRAINING else 0)
    limits = []
    trials = view.budgets.get(Resource.TRIALS)
    if trials is not None and trials.limit is not None:
        limits.append(trials.limit - trials.spent)
    wall = view.budgets.get(Resource.WALL_S)
    if wall is not None and wall.limit is not None and one_s > 0:
        limits.append((wall.limit - ctx.active_s()) / one_s * view.spec.parallel)
    if not limits:
        return None
    return max(0.0, min(limits)) + max(0, baselines_wanted(view) - len(view.baselines))


def _gate_left(view: StudyView) -> tuple[int, int]:
    family = open_family(view)
    if family is not None:
        done = len(view.replays.get(family.id, ()))
        most = gate_runs_bounds(read_profile(family.profile), candidates=len(family.candidates))[1]
        return 0, max(0, most - done)
    if view.spec.promotion is None or view.study.state is StudyState.REPLAYING:
        return 0, 0
    return gate_runs_bounds(PROFILES[view.spec.promotion.profile])
