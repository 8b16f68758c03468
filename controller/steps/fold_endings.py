"""What the end of a trial changes in the view: history, leader, budgets, what is known by now."""

from dataclasses import replace
from typing import Final

from controller.steps.candidates import Known
from controller.steps.fold_conversions import file_converted
from controller.steps.fold_retention import file_saved
from controller.steps.view import Leader, LiveTrial, Measured, StudyView, needs_times
from evaluator.objective import is_better
from evaluator.pruning import Curve, OtherCurve, pack_curve
from ledger.projection import printable
from ledger.records import Resource, Split, TrialKind
from ledger.search import DETAIL_CHARS, TIME_DIGITS, FinishedTrial
from ledger.states import FREE, Reason, TrialState

_NO_NEWS: Final = (Reason.INFEASIBLE, Reason.DUPLICATE)
"""A value that is no best: of a candidate that breaks a constraint, or that was known before."""


def shift(view: StudyView, resource: Resource, reserved: float, spent: float) -> None:
    line = view.budgets.get(resource)
    if line is None:
        return
    room = float("inf") if line.limit is None else line.limit - (line.reserved + reserved)
    total = line.spent + spent
    view.budgets[resource] = replace(
        line,
        reserved=line.reserved + reserved,
        spent=min(total, max(room, line.spent)),
        overrun=line.overrun + max(0.0, total - max(room, line.spent)),
    )


def end_trial(
    view: StudyView,
    trial: LiveTrial,
    state: TrialState,
    reason: Reason,
    *,
    kept: bool = False,
    served: float | None = None,
    detail: str = "",
) -> None:
    view.finish_seq += 1
    del view.live[trial.id]
    complete = state is TrialState.COMPLETE
    scored = trial.scores.get(Split.SEARCH)
    value = (served if scored is None else scored.value) if complete else None
    file_saved(view, trial, state, reason, value)
    if trial.kind is TrialKind.SEARCH:
        shift(view, Resource.TRIALS, -1.0, 0.0 if reason in FREE else 1.0)
        view.finished.append(
            FinishedTrial(
                number=trial.number,
                params=trial.params,
                state=state,
                value=value,
                reason=reason,
                candidate_id=trial.candidate_id,
                kept=kept,
                scores=dict(scored.scores) if scored is not None and view.needs_scores else {},
                detail=printable(detail)[:DETAIL_CHARS],
                proposer=trial.proposer,
                parent_id=trial.parent_id,
                rationale=printable(trial.rationale)[:DETAIL_CHARS],
                source_digest=trial.source_digest,
                wall_s=round(trial.wall_s, TIME_DIGITS) if needs_times(view.spec) else 0.0,
            )
        )
    elif trial.kind is TrialKind.CONVERSION:
        file_converted(view, trial, state, reason, detail)
        return
    else:
        _file_measured(view, trial, state, reason, detail)
    if value is not None and trial.kind is TrialKind.SEARCH and reason not in _NO_NEWS:
        note_best(view, value)
    if kept and value is not None:
        view.leader = Leader(trial.candidate_id, value)
    if complete and reason is not Reason.DUPLICATE:
        view.durations.append(trial.wall_s)
        _note_answer(view, trial, value)
    if trial.curve and reason is not Reason.DUPLICATE:
        file_curve(view, trial.kind, trial.number, state, trial.curve)


def file_curve(
    view: StudyView, kind: TrialKind, number: int, state: TrialState, curve: Curve
) -> None:
    """Keep an ended trial's curve for those that later ones are compared with."""
    if state not in (TrialState.COMPLETE, TrialState.PRUNED):
        return
    packed, is_complete = pack_curve(curve), state is TrialState.COMPLETE
    if is_complete:
        view.curves.append(packed)
    if kind is TrialKind.SEARCH:
        view.other_curves.append(OtherCurve(number, packed, is_complete=is_complete))


def note_best(view: StudyView, value: float) -> None:
    if view.best_value is None or is_better(value, view.best_value, view.objective.direction):
        view.best_value = value


def _file_measured(
    view: StudyView, trial: LiveTrial, state: TrialState, reason: Reason, detail: str
) -> None:
    measured = Measured(
        trial_id=trial.id,
        candidate_id=trial.candidate_id,
        stage=trial.stage,
        state=state,
        reason=reason,
        detail=detail,
        values={split: scored.value for split, scored in trial.scores.items()},
        scores={split: dict(scored.scores) for split, scored in trial.scores.items()},
    )
    if trial.kind is TrialKind.BASELINE:
        view.baselines.append(measured)
    elif trial.family_id is not None:
        view.replays.setdefault(trial.family_id, []).append(measured)


def _note_answer(view: StudyView, trial: LiveTrial, value: float | None) -> None:
    """Remember what a duplicate is served with, and a candidate's repeated measurements."""
    known = view.candidates.get(trial.candidate_id)
    if known is None:
        view.candidates[trial.candidate_id] = Known(trial.number, value)
    elif trial.kind is TrialKind.SEARCH and known.value is not None and value is not None:
        view.repeats.setdefault(trial.candidate_id, [known.value]).append(value)
