"""Decided: says keep, discard or measured of every evaluated trial, in the order they came."""

import math
from collections.abc import Mapping

from controller.decisions.screening import decide_screening
from controller.spec.study import StudySpec
from controller.steps.context import StepContext
from controller.steps.view import LiveTrial, constraints_of
from ledger import entries as e
from ledger.records import Decision, Split, TrialKind, Verdict
from ledger.states import Reason, TrialState


def run(ctx: StepContext) -> None:
    for trial in list(ctx.view.live.values()):
        if trial.state is TrialState.DECIDING:
            _decide(ctx, trial)


def _decide(ctx: StepContext, trial: LiveTrial) -> None:
    scored = trial.scores.get(Split.SEARCH)
    decision = _screen(ctx, trial)
    ctx.add(
        e.TrialDecided(
            trial_id=trial.id,
            candidate_id=trial.candidate_id,
            trial_kind=trial.kind,
            verdict=decision.verdict,
            reason=decision.reason,
            value=None if scored is None else scored.value,
            compared_with=decision.compared_with,
            margin=decision.margin,
            noise_floor=decision.noise_floor,
            finish_seq=ctx.view.finish_seq + 1,
        )
    )
    ctx.free(trial)


def _screen(ctx: StepContext, trial: LiveTrial) -> Decision:
    if trial.kind is not TrialKind.SEARCH:
        return Decision(verdict=Verdict.MEASURED, reason=Reason.MEASURED)
    leader = ctx.view.leader
    return decide_screening(
        value=trial.scores[Split.SEARCH].value,
        leader_value=None if leader is None else leader.value,
        leader_id=None if leader is None else leader.candidate_id,
        baseline=ctx.baseline_values(),
        noise_floor=ctx.noise_floor(),
        direction=ctx.view.objective.direction,
        is_feasible=is_feasible(ctx.view.spec, trial.scores[Split.SEARCH].scores),
    )


def is_feasible(spec: StudySpec, scores: Mapping[str, float]) -> bool:
    """Whether every constraint holds; a metric that was not given breaks its own."""
    return all(c.excess(scores.get(c.metric, math.nan)) <= 0 for c in constraints_of(spec))
