"""Applies what operators asked for: the only way anyone but the worker changes a study."""

from collections.abc import Callable, Mapping
from typing import Final

from controller.spec.plan_section import plan_fault
from controller.steps import extending, replay
from controller.steps.collect import fail_attempt
from controller.steps.context import StepContext
from controller.steps.convert_opening import open_by_hand
from controller.steps.ending import end_everything
from controller.steps.propose import NewTrial, add_trial, cancel_waiting
from controller.steps.sources import patched_source, source_of
from controller.wiring import Service
from ledger import entries as e
from ledger import writes
from ledger.digests import derive_seed
from ledger.errors import (
    ArlError,
    Conflict,
    DiskFull,
    InvalidInput,
    LedgerUnavailable,
    TargetUnavailable,
)
from ledger.records import (
    Command,
    CommandVerb,
    Json,
    Params,
    PausedBy,
    Resource,
    Split,
    TrialKind,
)
from ledger.search import Proposal
from ledger.states import (
    STUDY_TERMINAL,
    AttemptState,
    Reason,
    StudyState,
)
from proposers.patches import PatchRefused
from proposers.search_space import faults

PAUSABLE: Final = frozenset(
    {
        StudyState.PREPARING,
        StudyState.RUNNING,
        StudyState.DRAINING,
        StudyState.REPLAYING,
    }
)


class HalfApplied(Conflict):
    """A command was refused after it had changed the batch, which has to be dropped. Trying it
    again would end the same way and hold up every command behind it."""

    def __init__(self, command: Command, error: ArlError) -> None:
        super().__init__(str(error))
        self.command = command


def ask(
    service: Service,
    study_id: str,
    verb: CommandVerb,
    arguments: Mapping[str, Json],
    actor: str,
) -> int:
    """Ask something of a study; the worker that holds its lease applies it. Returns the
    command's id. Raises NotFound."""
    with service.ledger.write() as session:
        return writes.insert_command(session, study_id, verb, arguments, actor)


def run(ctx: StepContext) -> None:
    """Apply every pending command in the order they were given; a bad one is refused, with why."""
    pending, ctx.view.commands = ctx.view.commands, []
    for command in pending:
        if command.verb is CommandVerb.ENQUEUE and ctx.view.study.state is StudyState.PREPARING:
            continue  # read again, and applied once the study runs
        before = len(ctx.batch)
        try:
            refusal = _VERBS[command.verb](ctx, command) or ""
        except (DiskFull, LedgerUnavailable, TargetUnavailable):
            raise  # it is carried out once they are back
        except ArlError as error:
            if len(ctx.batch) != before:
                raise HalfApplied(command, error) from error
            _answer(ctx, command, refused=True, detail=str(error))
        else:
            _answer(ctx, command, refused=bool(refusal), detail=refusal)


def refuse_half(ctx: StepContext, error: Conflict) -> None:
    """Answer the command whose batch was dropped for its error, if it was one's."""
    if isinstance(error, HalfApplied):
        _answer(ctx, error.command, refused=True, detail=str(error))


def _answer(ctx: StepContext, command: Command, *, refused: bool, detail: str) -> None:
    ctx.add(
        e.CommandApplied(
            command_id=command.id,
            verb=command.verb,
            arguments=command.arguments,
            actor=command.actor,
            refused=refused,
            detail=detail,
        )
    )


def _pause(ctx: StepContext, command: Command) -> None:
    study = ctx.view.study
    if study.paused_by is PausedBy.CONDITION and study.paused_from is not None:
        ctx.move(study.paused_from)
    elif study.state not in PAUSABLE:
        raise Conflict(f"study {study.name} is {study.state}; only a running study can be paused")
    ctx.add(
        e.StudyMoved(
            current=ctx.view.study.state,
            new=StudyState.PAUSED,
            reason=Reason.PAUSED_BY_OPERATOR,
            detail=f"paused by {command.actor}",
            paused_by=PausedBy.OPERATOR,
        )
    )


def _resume(ctx: StepContext, command: Command) -> None:
    study = ctx.view.study
    gone = command.arguments.get("host_gone")
    if gone is not None:
        _give_up_host(ctx, str(gone), command.actor)
    if study.state is StudyState.PAUSED and study.paused_from is not None:
        ctx.move(study.paused_from, detail=f"resumed by {command.actor}")
    elif study.state in STUDY_TERMINAL:
        raise Conflict(
            f"study {study.name} is {study.state} ({study.reason}) and has nothing to resume; "
            f"`arl extend {study.id} --trials +N` searches on"
        )


def _give_up_host(ctx: StepContext, host: str, actor: str) -> None:
    """Attempts on a host that the operator says is gone are lost, and tried again elsewhere."""
    if host == ctx.settings.host:
        raise Conflict(f"resume: host_gone: {host!r} is this host, and its worker is running")
    for attempt in ctx.view.attempts():
        trial = ctx.view.live.get(attempt.trial_id or "")
        if attempt.host != host:
            continue
        if trial is None:
            ctx.end_attempt(attempt, AttemptState.LOST, Reason.HOST_GONE, f"said {actor}")
        else:
            fail_attempt(ctx, trial, attempt, Reason.HOST_GONE, f"{host} is gone, said {actor}")


def _stop(ctx: StepContext, command: Command) -> None:
    study = ctx.view.study
    if (study.paused_from or study.state) is not StudyState.RUNNING:
        raise Conflict(
            f"study {study.name} is {study.paused_from or study.state}; only a running study can "
            "be stopped"
        )
    if study.state is StudyState.PAUSED:
        ctx.move(StudyState.RUNNING)
    cancel_waiting(ctx, Reason.STOPPED_BY_OPERATOR)
    detail = f"stopped by {command.actor}; running trials finish, nothing is replayed"
    ctx.move(StudyState.DRAINING, Reason.STOPPED_BY_OPERATOR, detail)


def _cancel(ctx: StepContext, command: Command) -> None:
    study = ctx.view.study
    if study.state in STUDY_TERMINAL:
        raise Conflict(f"study {study.name} is already {study.state}")
    end_everything(ctx, Reason.CANCELLED_BY_OPERATOR, f"cancelled by {command.actor}")
    ctx.move(StudyState.CANCELLED, Reason.CANCELLED_BY_OPERATOR, f"cancelled by {command.actor}")


def _enqueue(ctx: StepContext, command: Command) -> None:
    """Arguments: `params`, a full set of parameters inside the space (default: the baseline's);
    `patch`, a change of the mutable files of `parent_id` (default: the baseline)."""
    view = ctx.view
    if view.study.state not in (StudyState.RUNNING, StudyState.PAUSED):
        raise Conflict(
            f"study {view.study.name} is {view.study.state}; a trial can be added while it runs "
            "(a completed study first needs `arl extend`)"
        )
    params = _checked_params(ctx, command)
    if fault := plan_fault(view.spec, params):
        raise InvalidInput(f"trial: params: the plan would be wrong: {fault}")
    ctx.check_room(Resource.TRIALS, 1.0)
    proposal = Proposal(
        params=params,
        patch=_optional_text(command, "patch"),
        parent_id=_optional_text(command, "parent_id"),
        rationale=f"asked for by {command.actor}",
    )
    new = NewTrial(
        kind=TrialKind.SEARCH,
        proposal=proposal,
        source_digest=_patched(ctx, proposal),
        proposer="operator",
        seed=derive_seed(view.study.secret, "search", view.next_search),
        splits=(Split.SEARCH,),
    )
    add_trial(ctx, new)


def _patched(ctx: StepContext, proposal: Proposal) -> str | None:
    source = source_of(ctx, proposal.parent_id)
    if proposal.patch is None:
        return source
    if source is None or not ctx.view.spec.program.mutable:
        raise InvalidInput("trial: patch: the study has no program.mutable, so nothing to patch")
    try:
        return patched_source(ctx, source, proposal.patch)
    except PatchRefused as error:
        raise InvalidInput(f"trial: patch: {error}") from None


def _optional_text(command: Command, name: str) -> str | None:
    value = command.arguments.get(name)
    return None if value is None else str(value)


def _checked_params(ctx: StepContext, command: Command) -> Params:
    given = command.arguments.get("params")
    if given is None and ("patch" in command.arguments or not ctx.space):
        return ctx.view.baseline_params
    if not isinstance(given, dict):
        raise InvalidInput(f"trial: params: {given!r}: must be name=value pairs")
    found = list(faults(ctx.space, given))
    if found:
        raise InvalidInput(
            f"trial: params: {'; '.join(found)}; the space has {', '.join(sorted(ctx.space))}"
        )
    return dict(given)


def _candidate_id(command: Command) -> str:
    return str(command.arguments.get("candidate_id", ""))


def _note(command: Command) -> str:
    return str(command.arguments.get("note") or "")


def _replay(ctx: StepContext, command: Command) -> None:
    replay.open_for(ctx, _candidate_id(command), command.actor)


def _promote(ctx: StepContext, command: Command) -> str:
    return replay.approve(ctx, _candidate_id(command), command.actor, _note(command))


def _approve(ctx: StepContext, command: Command) -> str:
    return replay.approve_awaiting(ctx, _candidate_id(command), command.actor, _note(command))


def _decline(ctx: StepContext, command: Command) -> None:
    replay.decline(ctx, _candidate_id(command), command.actor)


def _convert(ctx: StepContext, command: Command) -> None:
    """Arguments: `candidate_id`, and `convert`, one item of the study file's section."""
    wanted = command.arguments.get("convert", {})
    open_by_hand(ctx, _candidate_id(command), wanted, command.actor)


_VERBS: Final[dict[CommandVerb, Callable[[StepContext, Command], str | None]]] = {
    # each returns why what it decided on is no good news for who asked, if it is none
    CommandVerb.PAUSE: _pause,
    CommandVerb.RESUME: _resume,
    CommandVerb.STOP: _stop,
    CommandVerb.CANCEL: _cancel,
    CommandVerb.EXTEND: extending.extend,
    CommandVerb.ENQUEUE: _enqueue,
    CommandVerb.REPLAY: _replay,
    CommandVerb.PROMOTE: _promote,
    CommandVerb.APPROVE: _approve,
    CommandVerb.DECLINE: _decline,
    CommandVerb.CONVERT: _convert,
}
