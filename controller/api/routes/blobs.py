"""Files by digest: how source, data, models and evaluators reach a server that opens no path."""

import re
from typing import Annotated, Any, Final

from fastapi import Body, Depends, Header, Path, Request, Response

from controller.api.access import Allowed, Principal
from controller.api.models.blobs import BlobState, Digests, Missing, TreeWanted
from controller.api.mutations import repeatable
from controller.api.problems import MEDIA_TYPE, documented
from controller.api.routing import new_router
from controller.api.tokens import Scope
from controller.api.uploads import Uploads, check_digest
from controller.wiring import Service
from ledger.errors import InvalidInput

router = new_router("blobs")

Submitter = Annotated[Principal, Depends(Allowed(Scope.SUBMIT))]
OCTETS: Final = "application/octet-stream"
_RANGE: Final = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})\Z")
Sha256 = Annotated[
    str, Path(description="64 hexadecimal digits; of anything else nothing is here (404)")
]
ContentRange = Annotated[
    str | None,
    Header(
        description="Which piece of a larger file this is",
        examples=["bytes 0-1023/4096"],
        # Documented and not checked there: the refusal below says what to write instead.
        json_schema_extra={"pattern": "^bytes [0-9]{1,15}-[0-9]{1,15}/[0-9]{1,15}$"},
    ),
]


def uploads_of(service: Service, principal: Principal) -> Uploads:
    return Uploads(
        service.settings.home / "uploads",
        principal.token_id or "local",
        service.store,
        keep_free_bytes=service.settings.disks()[0].min_free_bytes,
    )


def _mine(request: Request, principal: Submitter) -> Uploads:
    return uploads_of(request.app.state.service, principal)


Mine = Annotated[Uploads, Depends(_mine)]


@router.post("/blobs/missing", response_model=Missing)
def missing(
    mine: Mine, _: Annotated[Principal, Depends(repeatable(Scope.SUBMIT))], body: Digests
) -> dict[str, Any]:
    """Which of these files and trees you have not sent yet."""
    return {"missing": mine.missing(body.digests)}


@router.head("/blobs/{digest}", status_code=200, responses=documented(404))
def blob_state(mine: Mine, digest: Sha256) -> Response:
    """200 when you sent all of it; else 404, and `Upload-Offset` says where to go on."""
    found = mine.received(check_digest(digest))
    headers = {"Upload-Offset": str(found.bytes)}
    if found.is_complete:
        return Response(headers=headers)
    return Response(status_code=404, headers=headers, media_type=MEDIA_TYPE)


@router.put(
    "/blobs/{digest}",
    response_model=BlobState,
    responses=documented(404, 409, 507),
)
def put_blob(
    mine: Mine,
    digest: Sha256,
    piece: Annotated[bytes, Body(media_type=OCTETS)] = b"",
    content_range: ContentRange = None,
) -> dict[str, Any]:
    """Send a file of at most 8 MiB, or a piece of a larger one with `Content-Range: bytes
    FIRST-LAST/TOTAL`. Pieces are sent in order; after a cut ask HEAD where to go on. The whole
    is checked against its digest before it counts."""
    check_digest(digest)
    first, total = _range(content_range, len(piece))
    state = mine.add(digest, first, total, piece)
    return {"digest": digest, "received": state.bytes, "is_complete": state.is_complete}


@router.put("/trees/{digest}", response_model=Missing, responses=documented(404, 507))
def put_tree(mine: Mine, digest: Sha256, body: TreeWanted) -> dict[str, Any]:
    """Make a directory of files that you sent. 404 names the first that you did not."""
    files = [
        (file.path, 0o755 if file.executable else 0o644, file.size, file.digest)
        for file in body.files
    ]
    mine.add_tree(check_digest(digest), files)
    return {"missing": []}


def _range(content_range: str | None, length: int) -> tuple[int, int]:
    """Where the piece begins and how long the whole is. Raises InvalidInput."""
    if content_range is None:
        return 0, length
    match = _RANGE.match(content_range)
    if (
        match is None
        or int(match[2]) - int(match[1]) + 1 != length
        or int(match[2]) >= int(match[3])
    ):
        raise InvalidInput(
            f"Content-Range: {content_range[:100]!r}: write `bytes FIRST-LAST/TOTAL` for the "
            f"{length} bytes of the body"
        )
    return int(match[1]), int(match[3])
