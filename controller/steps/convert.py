"""Converted: makes what the study asks for of a promoted model, and judges each on the holdout.

A conversion is opened with the promotion or by hand, runs as trials of its own (convert, measure,
evaluate on both holdout halves), and ends servable, refused or failed. The incumbent stays as it
is, whatever comes of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.decisions.conversions import ConvertedPair, ScoredModel, decide_conversion
from controller.steps import evidence
from controller.steps.context import StepContext
from controller.steps.propose import NewTrial, add_trial
from controller.steps.view import Converted, StudyView
from ledger import entries as e
from ledger import reads
from ledger.conversion_entries import ConversionEnded
from ledger.conversion_records import Conversion
from ledger.digests import derive_seed
from ledger.records import Evaluation, Json, Split, TrialKind
from ledger.search import Proposal
from ledger.states import ConversionState, StudyState, TrialState

HALVES: Final = (Split.HOLDOUT_A, Split.HOLDOUT_B)


def run(ctx: StepContext) -> None:
    """Advance every open conversion; the study is completed with the last of them."""
    view = ctx.view
    if view.study.state is not StudyState.REPLAYING or not view.open_conversions():
        return
    for conversion in view.open_conversions():
        _advance(ctx, conversion)
    if not view.open_conversions() and not view.live:
        ctx.move(StudyState.COMPLETED, detail=_summary(view))


def _summary(view: StudyView) -> str:
    """What became of the latest promoted candidate's conversions."""
    latest = max(view.conversions.values(), key=lambda c: c.number)
    said = (
        f"{c.method} {c.state}"
        for c in view.conversions.values()
        if c.candidate_id == latest.candidate_id
    )
    return f"promoted; converted: {', '.join(said)}"


def _advance(ctx: StepContext, conversion: Conversion) -> None:
    view = ctx.view
    stages = [conversion.stage(index) for index in range(len(conversion.sources))]
    ended = [view.converted[stage] for stage in stages if stage in view.converted]
    failed = next((one for one in ended if one.state is not TrialState.COMPLETE), None)
    running = {trial.stage for trial in view.live.values()}
    if failed is not None:
        if running.isdisjoint(stages):
            _end_failed(ctx, conversion, failed)
        return
    if len(ended) == len(stages):
        _judge(ctx, conversion, ended)
        return
    for index, stage in enumerate(stages):
        if stage not in running and stage not in view.converted:
            if len(view.live) >= view.spec.parallel:
                return
            _propose(ctx, conversion, index)


def _propose(ctx: StepContext, conversion: Conversion, index: int) -> None:
    params, source_digest = evidence.candidate_parts(ctx, conversion.candidate_id)
    add_trial(
        ctx,
        NewTrial(
            kind=TrialKind.CONVERSION,
            proposal=Proposal(params=params, rationale=f"conversion {conversion.method}"),
            source_digest=source_digest,
            proposer="conversion",
            seed=derive_seed(ctx.view.study.secret, conversion.id, index),
            splits=HALVES,
            stage=conversion.stage(index),
        ),
    )


def _end_failed(ctx: StepContext, conversion: Conversion, trial: Converted) -> None:
    ctx.add(
        ConversionEnded(
            conversion_id=conversion.id,
            new=ConversionState.FAILED,
            reason=trial.reason,
            detail=f"trial {trial.trial_id}: {trial.detail}"[:2000],
            artifact_digest=trial.digest,
            evidence={"measured": [dict(trial.measured)]} if trial.measured else {},
        )
    )


def _judge(ctx: StepContext, conversion: Conversion, ended: Sequence[Converted]) -> None:
    promotion = ctx.view.spec.promotion
    with ctx.ledger.read() as session:
        before = reads.load_evaluations(session, conversion.sources)
    pairs = [
        ConvertedPair(
            unconverted=_scored(ctx, before.get(source, ())),
            converted=_scored(ctx, trial.scores.values()),
        )
        for source, trial in zip(conversion.sources, ended, strict=True)
    ]
    verdict = decide_conversion(
        pairs,
        direction=ctx.view.objective.direction,
        margin=_number(conversion.settings, "margin"),
        alpha=_number(conversion.settings, "alpha"),
        guards={
            name: guard.max_drop for name, guard in (promotion.guard if promotion else {}).items()
        },
    )
    measured: list[Json] = [dict(trial.measured) for trial in ended]
    ctx.add(
        ConversionEnded(
            conversion_id=conversion.id,
            new=verdict.state,
            reason=verdict.reason,
            detail=verdict.detail,
            artifact_digest=ended[0].digest,
            evidence={**verdict.evidence, "measured": measured},
        )
    )


def _scored(ctx: StepContext, evaluations: Iterable[Evaluation | e.TrialEvaluated]) -> ScoredModel:
    """Both holdout halves of one model, one after the other."""
    halves: dict[Split, Evaluation | e.TrialEvaluated] = {
        one.split: one for one in evaluations if one.split in HALVES
    }
    items = ctx.bundle.items if ctx.bundle is not None else {}
    weights = {split: float(items.get(split) or 1) for split in halves}
    promotion = ctx.view.spec.promotion
    guards = [
        name
        for name in (promotion.guard if promotion is not None else {})
        if all(name in one.scores for one in halves.values())
    ]
    return ScoredModel(
        value=_weighted({split: one.value for split, one in halves.items()}, weights),
        items=[value for split in HALVES if split in halves for value in halves[split].items],
        guards={
            name: _weighted({split: one.scores[name] for split, one in halves.items()}, weights)
            for name in guards
        },
    )


def _weighted(values: Mapping[Split, float], weights: Mapping[Split, float]) -> float:
    total = sum(weights[split] for split in values)
    return sum(weights[split] * value for split, value in values.items()) / total


def _number(settings: Mapping[str, Json], name: str) -> float:
    value = settings[name]
    if not isinstance(value, int | float):
        raise ValueError(f"conversion setting {name} is {value!r}")
    return float(value)
