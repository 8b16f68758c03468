"""What trials left: listed by trial, read by digest. No path of this machine is ever named."""

from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Path
from fastapi.responses import StreamingResponse

from controller.api.models.attempts import ArtifactsOut, TreeOut
from controller.api.problems import documented
from controller.api.reading import Reader, TheService, TrialId, trial_named
from controller.api.routing import new_router
from controller.api.streams import Pieces
from controller.documents.artifacts import artifacts_document, tree_document
from controller.sweeper import release_words
from controller.wiring import Service
from ledger.attempt_reads import is_artifact
from ledger.errors import ArlError, ArtifactLetGo, NotFound

router = new_router("artifacts")

_HEADERS: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "private, max-age=31536000, immutable",
}
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

Digest = Annotated[
    str, Path(pattern=r"^[0-9a-f]{64}$", description="The tree's digest, as a trial lists it")
]


@router.get("/trials/{trial}/artifacts", response_model=ArtifactsOut, responses=documented(404))
def list_artifacts(_: Reader, service: TheService, trial: TrialId) -> dict[str, Any]:
    """What a trial's attempts left in the store, each with its files."""
    with service.ledger.read() as session:
        detail = trial_named(session, trial)
    return artifacts_document(service.store, detail.trial.id, detail.artifacts)


@router.get("/artifacts/{digest}", response_model=TreeOut, responses=documented(404, 410))
def show_artifact(_: Reader, service: TheService, digest: Digest) -> dict[str, Any]:
    """The files of a tree that a trial left. Inputs and evaluators are not shown."""
    _check(service, digest)
    return {"digest": digest, **tree_document(service.store, digest)}


@router.get(
    "/artifacts/{digest}/{path:path}",
    response_class=StreamingResponse,
    responses={200: {"content": _BYTES}, **documented(404, 410)},
)
def read_artifact(
    _: Reader,
    service: TheService,
    digest: Digest,
    path: Annotated[str, Path(max_length=4096, description="A path that the tree lists")],
) -> StreamingResponse:
    """One file of it, to be saved: nothing that a candidate wrote is shown as a page."""
    _check(service, digest)
    try:
        files = {
            name: (size, content) for name, _, size, content in service.store.manifest(digest)
        }
        size, content = files[path]
        pieces = service.store.stream(content)
    except (ArlError, KeyError):
        raise NotFound("the artifact has no such file, or is no longer stored") from None
    name = quote(path.rpartition("/")[2], safe="")
    headers = {
        **_HEADERS,
        "Content-Length": str(size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "ETag": f'"{content}"',
    }
    return Pieces(pieces, media_type="application/octet-stream", headers=headers)


def _check(service: Service, digest: str) -> None:
    with service.ledger.read() as session:
        if not is_artifact(session, digest):
            raise NotFound("no trial left an artifact with that digest")
    why = release_words(service.ledger, digest)
    if why is not None:
        raise ArtifactLetGo(why)
