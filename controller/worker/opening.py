"""Reads a study that was claimed: its view, its frozen evaluator, what its trials hold."""

from dataclasses import dataclass

from controller.steps.capacity import Capacity
from controller.steps.context import StepContext
from controller.steps.loading import load_view
from controller.wiring import Service
from evaluator.bundle import Bundle, load_bundle
from ledger import pools
from ledger.errors import ArtifactCorrupt, NotFound
from ledger.states import AttemptState


@dataclass(frozen=True, slots=True)
class OpenedStudy:
    context: StepContext
    bundle_damage: str
    """What is wrong with the frozen evaluator, which ends the study; else empty."""


def open_study(service: Service, study_id: str, capacity: Capacity) -> OpenedStudy:
    """Everything of it as the ledger has it now."""
    with service.ledger.read() as session:
        view = load_view(session, study_id)
        holds = pools.holds_of_study(session, study_id)
        want = pools.find_want(session, study_id)
    capacity.enter(study_id, view.spec, holds, want)
    bundle, damage = _load_bundle(service, view.study.bundle_digest)
    context = StepContext(
        view=view,
        bundle=bundle,
        ledger=service.ledger,
        store=service.store,
        training=service.training_target(view.spec),
        evaluating=service.evaluating_target(view.spec),
        collecting=service.collecting,
        proposing=service.proposing,
        brief=service.brief(view.spec),
        release=service.cleaner.release,
        let_go=service.sweeper.let_go,
        cap_logs=service.sweeper.cap_logs,
        proposer=service.proposer(study_id, view.spec),
        space=service.space(view.spec),
        settings=service.settings,
        clock=service.clock,
        capacity=capacity,
        active_before_s=view.study.active_s,
        active_since=service.clock.monotonic(),
    )
    context.news.update(a.handle for a in view.attempts() if a.handle is not None)
    _regrant(context)
    return OpenedStudy(context, damage)


def _load_bundle(service: Service, digest: str) -> tuple[Bundle | None, str]:
    """The frozen evaluator; what is wrong with one that is damaged."""
    if not digest:
        return None, ""
    try:
        return load_bundle(service.store, digest), ""
    except (ArtifactCorrupt, NotFound) as error:
        return None, f"the evaluator bundle {digest[:12]} is damaged: {error}"


def _regrant(ctx: StepContext) -> None:
    """Trials that were under way hold what they held, even past the machine's size, and those
    that ended hold nothing."""
    capacity, study_id = ctx.capacity, ctx.view.study.id
    held = capacity.held_by(study_id)
    for trial_id in held.keys() - ctx.view.live.keys():
        capacity.give_back(study_id, trial_id)
    for trial in ctx.view.live.values():
        grant, attempt = held.get(trial.id), trial.attempt
        if grant is None and attempt is not None and not ctx.target_of(attempt).is_shared:
            if ctx.is_here(attempt) and attempt.state is not AttemptState.EXITED:
                grant = capacity.restore(study_id, trial.id)
        if grant is not None:
            trial.gpu_ids = grant.gpu_ids
