"""Submitting a study, and asking something of one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends

from controller.api.commanding import Wait, ask
from controller.api.models.commands import (
    Budgets,
    Command,
    ConvertWanted,
    Nothing,
    ResumeWanted,
    StudyPatch,
    StudySubmittedOut,
    StudyWanted,
    TrialWanted,
)
from controller.api.models.registry import ApprovalWanted
from controller.api.mutations import Done, Mutation, mutation
from controller.api.problems import documented
from controller.api.reading import (
    CandidateId,
    FamilyId,
    StudyName,
    TrialId,
    candidate_named,
    family_named,
    study_named,
    trial_named,
)
from controller.api.remote_rules import check_addresses, check_remote, settled_remote
from controller.api.routes.blobs import uploads_of
from controller.api.routing import new_router
from controller.api.strict_json import StrictResponse
from controller.api.submission import staged
from controller.api.tokens import Scope
from controller.registry.names import check_note
from controller.spec.loading import parse_study
from controller.spec.study import StudySpec
from controller.steps.submit import Submission, submit_study
from ledger.database import WriteSession
from ledger.errors import ArlError, Conflict
from ledger.records import CommandVerb, Json
from ledger.states import FamilyState

router = new_router("commands")

Submit = Annotated[Mutation, Depends(mutation(Scope.SUBMIT))]
Promote = Annotated[Mutation, Depends(mutation(Scope.PROMOTE))]


@router.post(
    "/studies", response_model=StudySubmittedOut, status_code=201, responses=documented(409, 507)
)
def submit(change: Submit, body: StudyWanted) -> Any:
    """Store a study; a worker runs it. Its files were sent before (`/blobs`, `/trees`)."""
    earlier = change.earlier()
    if earlier is not None:
        return earlier.response()
    spec = parse_study(body.study)
    settings, uploads = change.service.settings, uploads_of(change.service, change.principal)
    check_remote(spec, uploads, settings, may_promote=change.principal.may(Scope.PROMOTE))
    check_addresses(spec, settings)
    spec = settled_remote(spec, settings)
    try:
        return _submit(change, spec, alone=not body.new).response()
    except ArlError:
        earlier = change.earlier()
        if earlier is None:
            raise
        return earlier.response()  # the same request, sent twice at once


def _submit(change: Mutation, spec: StudySpec, *, alone: bool) -> Done:
    service, answers = change.service, list[Done]()

    def within(session: WriteSession, made: Submission) -> None:
        answers.append(change.within(session, lambda _: _document(made), status=201))
        if answers[0].replayed:
            raise Conflict("the same request was answered meanwhile")

    with staged(spec, service.settings.home / "uploads", service.store) as base:
        submit_study(service, spec, base, actor=change.principal.actor, alone=alone, within=within)
    return answers[0]


def _document(made: Submission) -> dict[str, Json]:
    return {
        "study": made.study_id,
        "name": made.name,
        "bundle": made.bundle_digest or None,
        "target": made.target,
        "target_reason": made.target_reason,
    }


@router.patch(
    "/studies/{study}", response_model=Command, status_code=202, responses=documented(404, 409)
)
def change_study(change: Submit, study: StudyName, body: StudyPatch, wait: Wait = 0.0) -> Any:
    """Change budgets, `stop`, `parallel`, `weight` and `priority` of a study; a completed one
    searches on."""
    return _ask(change, study, CommandVerb.EXTEND, body.arguments(), wait)


@router.post(
    "/studies/{study}/extend",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def extend(change: Submit, study: StudyName, body: Budgets, wait: Wait = 0.0) -> Any:
    """The same as PATCH with `budget`."""
    return _ask(change, study, CommandVerb.EXTEND, StudyPatch(budget=body).arguments(), wait)


@router.post(
    "/studies/{study}/pause",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def pause(change: Submit, study: StudyName, body: Nothing | None = None, wait: Wait = 0.0) -> Any:
    """Start no more trials; running ones go on."""
    return _ask(change, study, CommandVerb.PAUSE, {}, wait)


@router.post(
    "/studies/{study}/resume",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def resume(
    change: Submit, study: StudyName, body: ResumeWanted | None = None, wait: Wait = 0.0
) -> Any:
    """Go on with a paused study."""
    gone = None if body is None else body.host_gone
    return _ask(
        change, study, CommandVerb.RESUME, {} if gone is None else {"host_gone": gone}, wait
    )


@router.post(
    "/studies/{study}/stop",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def stop(change: Submit, study: StudyName, body: Nothing | None = None, wait: Wait = 0.0) -> Any:
    """Let running trials finish, then complete the study; nothing is replayed."""
    return _ask(change, study, CommandVerb.STOP, {}, wait)


@router.post(
    "/studies/{study}/cancel",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def cancel(change: Submit, study: StudyName, body: Nothing | None = None, wait: Wait = 0.0) -> Any:
    """End the study and everything it runs, now. Final."""
    return _ask(change, study, CommandVerb.CANCEL, {}, wait)


@router.post(
    "/studies/{study}/trials",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def add_trial(change: Submit, study: StudyName, body: TrialWanted, wait: Wait = 0.0) -> Any:
    """Try this next."""
    arguments: dict[str, Json] = {}
    if body.params is not None or body.patch is None:
        arguments["params"] = dict(body.params or {})
    if body.patch is not None:
        arguments["patch"] = body.patch
    if body.parent is not None:
        arguments["parent_id"] = body.parent
    return _ask(change, study, CommandVerb.ENQUEUE, arguments, wait)


@router.post(
    "/candidates/{candidate}/replay",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def replay(
    change: Submit, candidate: CandidateId, body: Nothing | None = None, wait: Wait = 0.0
) -> Any:
    """Put a candidate before the promotion gate of its completed study."""
    return _ask_for(change, candidate, CommandVerb.REPLAY, wait)


@router.post(
    "/candidates/{candidate}/convert",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def convert(change: Submit, candidate: CandidateId, body: ConvertWanted, wait: Wait = 0.0) -> Any:
    """Make something of a promoted candidate's model, and judge it on the holdout."""
    wanted = body.model_dump(exclude_none=True)
    return _ask_for(change, candidate, CommandVerb.CONVERT, wait, convert=wanted)


@router.post(
    "/trials/{trial}/replay",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def replay_trial(
    change: Submit, trial: TrialId, body: Nothing | None = None, wait: Wait = 0.0
) -> Any:
    """The same for the candidate of a trial."""
    with change.service.ledger.read() as session:
        candidate = trial_named(session, trial).candidate
    return _ask_for(change, candidate.id, CommandVerb.REPLAY, wait)


@router.post(
    "/promotions/{family}/approve",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def approve(
    change: Promote, family: FamilyId, body: ApprovalWanted | None = None, wait: Wait = 0.0
) -> Any:
    """Promote the candidate whose gate passed and which awaits approval."""
    note = "" if body is None else check_note(body.note)
    return _answer_family(change, family, CommandVerb.APPROVE, wait, note)


@router.post(
    "/promotions/{family}/decline",
    response_model=Command,
    status_code=202,
    responses=documented(404, 409),
)
def decline(
    change: Promote, family: FamilyId, body: Nothing | None = None, wait: Wait = 0.0
) -> Any:
    """Refuse a promotion that awaits approval."""
    return _answer_family(change, family, CommandVerb.DECLINE, wait)


def _ask(
    change: Mutation, study: str, verb: CommandVerb, arguments: Mapping[str, Json], wait_s: float
) -> StrictResponse:
    with change.service.ledger.read() as session:
        study_id = study_named(session, study).id
    # Named by its id or by its name, it is the same study and the same request.
    same = replace(change, subject=f"study={study_id}")
    return ask(same, study_id, verb, arguments, wait_s=wait_s)


def _ask_for(
    change: Mutation, candidate_id: str, verb: CommandVerb, wait_s: float, **more: Json
) -> StrictResponse:
    with change.service.ledger.read() as session:
        candidate = candidate_named(session, candidate_id)
    arguments: dict[str, Json] = {"candidate_id": candidate.id, **more}
    return ask(change, candidate.study_id, verb, arguments, wait_s=wait_s)


def _answer_family(
    change: Mutation, family_id: str, verb: CommandVerb, wait_s: float, note: str = ""
) -> StrictResponse:
    with change.service.ledger.read() as session:
        family = family_named(session, family_id)
    candidate = family.evidence.get("best")
    # A request that is sent again was answered when it did: it may be promoted by now.
    if change.earlier() is None and family.state is not FamilyState.AWAITING_APPROVAL:
        raise Conflict(f"promotion {family.id} is {family.state}; nothing of it awaits approval")
    arguments: dict[str, Json] = {"candidate_id": candidate}
    if note:
        arguments["note"] = note
    return ask(change, family.study_id, verb, arguments, wait_s=wait_s)
