"""Ask and tell: trials for workers that ARL does not start.

The three that a worker sends for each trial are answered from one place on one thread: who asks is
checked inside (`CheckedInside`) instead of by a dependency, and the answer is made here instead of
by FastAPI, since each of those would wait for a thread of its own, which costs more than the rest.
"""

import math
from typing import Annotated, Any, Final

from fastapi import Depends, Header, Path, Request, Response

from controller.api.access import Allowed, Principal
from controller.api.models.outside import (
    Accepted,
    Ask,
    Handed,
    Heard,
    InputTree,
    NotReady,
    Report,
    Told,
)
from controller.api.mutations import IdempotencyKey, repeated
from controller.api.outside import Outside
from controller.api.problems import documented
from controller.api.reading import LONGEST_NAME, StudyName, TrialId, study_named
from controller.api.routes.blobs import uploads_of
from controller.api.routing import CheckedInside, new_router
from controller.api.strict_json import StrictResponse
from controller.api.tokens import Scope
from ledger.errors import NotFound

router = new_router("outside workers")

RETRY_S: Final = 0.2
OCTETS: Final = "application/octet-stream"
Submitter = Annotated[Principal, Depends(Allowed(Scope.SUBMIT))]
Worker = Annotated[Allowed, Depends(CheckedInside(Allowed(Scope.SUBMIT)))]
MountName = Annotated[
    str, Path(max_length=LONGEST_NAME, description="A name under the trial's `inputs`")
]
TrialToken = Annotated[
    str, Header(min_length=1, max_length=200, description="`token` of the trial, as handed out")
]


def outside_of(request: Request) -> Outside:
    """The app's own, made at its first use."""
    state = request.app.state
    if not hasattr(state, "outside"):
        state.outside = Outside(state.service)
    found: Outside = state.outside
    return found


TheOutside = Annotated[Outside, Depends(outside_of)]


@router.post(
    "/studies/{study}/ask",
    response_model=Handed,
    responses={**documented(404, 409), 202: {"model": NotReady, "description": "Ask again"}},
)
def ask(
    request: Request,
    may: Worker,
    study: StudyName,
    body: Ask,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """The next trial of a study with `target.name: outside`, or the one that you have."""
    principal = may(request)
    with request.app.state.service.ledger.read() as session:
        found = study_named(session, study)
    with repeated(request, principal, idempotency_key):
        handed = outside_of(request).ask(found, body.client)
    if handed is None:
        headers = {"Retry-After": str(math.ceil(RETRY_S))}
        return StrictResponse({"retry_after_s": RETRY_S}, 202, headers=headers)
    name, offer, token = handed
    document = offer["document"]
    return StrictResponse(
        {
            "trial": document["trial"],
            "attempt": name,
            "token": token,
            "params": document["parameters"],
            "seed": document["seed"],
            "kind": document["kind"],
            "document": document,
            "argv": offer["argv"],
            "inputs": offer["inputs"],
            "timeout_s": offer["timeout_s"],
            "lease_s": offer["lease_s"],
        }
    )


@router.post("/trials/{trial}/values", response_model=Heard, responses=documented(404, 409))
def report(
    request: Request,
    may: Worker,
    trial: TrialId,
    trial_token: TrialToken,
    body: Report,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Report values, and that you live; the answer says whether to stop."""
    with repeated(request, may(request), idempotency_key):
        should_stop = outside_of(request).report(trial, trial_token, body)
    return StrictResponse({"should_stop": should_stop})


@router.get("/trials/{trial}/should-stop", response_model=Heard, responses=documented(404, 409))
def should_stop(
    _: Submitter, outside: TheOutside, trial: TrialId, trial_token: TrialToken
) -> dict[str, Any]:
    """Whether the trial should save and end. Says that you live, too."""
    return {"should_stop": outside.report(trial, trial_token, Report())}


@router.post("/trials/{trial}/tell", response_model=Accepted, responses=documented(404, 409, 507))
def tell(
    request: Request,
    may: Worker,
    trial: TrialId,
    trial_token: TrialToken,
    body: Told,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """The end of a trial. Telling it again is harmless."""
    principal = may(request)
    uploads = uploads_of(request.app.state.service, principal)
    with repeated(request, principal, idempotency_key):
        first = outside_of(request).tell(trial, trial_token, body, uploads)
    return StrictResponse({"trial": trial, "repeated": not first})


@router.get(
    "/trials/{trial}/inputs/{mount}", response_model=InputTree, responses=documented(404, 409)
)
def input_tree(
    request: Request,
    _: Submitter,
    outside: TheOutside,
    trial: TrialId,
    mount: MountName,
    trial_token: TrialToken,
) -> dict[str, Any]:
    """The files of one of a trial's inputs."""
    tree = outside.input_tree(trial, trial_token, mount)
    manifest = request.app.state.service.store.manifest(tree)
    return {"files": [{"path": p, "size": s, "digest": d} for p, _mode, s, d in manifest]}


@router.get(
    "/trials/{trial}/inputs/{mount}/{path:path}",
    response_class=Response,
    responses={**documented(404, 409), 200: {"content": {OCTETS: {}}}},
)
def input_file(
    request: Request,
    _: Submitter,
    outside: TheOutside,
    trial: TrialId,
    mount: MountName,
    path: Annotated[str, Path(max_length=4096, description="A path that the input lists")],
    trial_token: TrialToken,
) -> Response:
    """One file of an input, by its path in the input."""
    store = request.app.state.service.store
    manifest = store.manifest(outside.input_tree(trial, trial_token, mount))
    digest = next((d for p, _mode, _size, d in manifest if p == path), None)
    if digest is None:
        raise NotFound(f"input {mount[:100]!r} has no file {path[:200]!r}")
    headers = {"Content-Disposition": "attachment"}
    return Response(store.read_bytes(digest), media_type=OCTETS, headers=headers)
