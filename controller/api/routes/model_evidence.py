"""Evidence of promotions: read, saved as one file, and checked against what is stored."""

import threading
from typing import Annotated, Any, Final

from fastapi import Query
from fastapi.responses import StreamingResponse

from controller.api.models.registry import CheckedOut, EvidenceOut
from controller.api.problems import documented
from controller.api.reading import ModelName, PositionNumber, Reader, TheService, named_model
from controller.api.routing import new_router
from controller.api.streams import Pieces
from controller.registry.checking import check_promotions
from controller.registry.folder import EvidenceFolder
from controller.registry.looking import checked_document
from controller.registry.making import latest_signature, sealed_of
from controller.wiring import Service
from ledger import registry_reads
from ledger.errors import Conflict, NotFound

router = new_router("models")

TAR: Final = "application/x-tar"
_BYTES: Final = {TAR: {"schema": {"type": "string", "format": "binary"}}}
_ONE_AT_A_TIME: Final = threading.Lock()


@router.get(
    "/models/{model}/incumbents/{number}/evidence",
    response_model=EvidenceOut,
    responses=documented(404, 409),
)
def read_evidence(
    _: Reader, service: TheService, model: ModelName, number: PositionNumber
) -> dict[str, Any]:
    """Statement, signatures, card and entry, as they were signed last."""
    artifact, files = _signed(service, model, number)
    texts = {path: content.decode() for path, content in files.items()}
    return {"model": model, "seq": number, "artifact": artifact, "files": texts}


@router.get(
    "/models/{model}/incumbents/{number}/evidence.tar",
    response_class=StreamingResponse,
    responses={200: {"content": _BYTES}, **documented(404, 409)},
)
def save_evidence(
    _: Reader,
    service: TheService,
    model: ModelName,
    number: PositionNumber,
    *,
    with_model: Annotated[
        bool, Query(alias="model", description="Whether the model's own files are in it")
    ] = True,
) -> StreamingResponse:
    """The directory that `arl evidence -o` writes, as a tar file: `arl verify --promotion` checks
    what is unpacked from it anywhere."""
    artifact, files = _signed(service, model, number)
    folder = EvidenceFolder(
        service.store, f"{model}-{number}", files, artifact if with_model else None
    )
    headers = {
        "Content-Length": str(folder.size_bytes),
        "Content-Disposition": f'attachment; filename="{model}-{number}.tar"',
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    return Pieces(folder.pieces(), media_type=TAR, headers=headers)


@router.get(
    "/models/{model}/incumbents/{number}/check",
    response_model=CheckedOut,
    responses=documented(404, 409),
)
def check_incumbent(
    _: Reader, service: TheService, model: ModelName, number: PositionNumber
) -> dict[str, Any]:
    """Read everything of a promotion again: entry, chain, scores, every byte of the artifact,
    signatures and card. One check at a time."""
    with service.ledger.read() as session:
        pointer = registry_reads.get_pointer(session, named_model(model), number)
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise Conflict("another promotion is being checked: ask again once that is done")
    try:
        (found,) = check_promotions(service.ledger, service.store, [pointer])
    finally:
        _ONE_AT_A_TIME.release()
    return checked_document(found, service.settings.home)


def _signed(service: Service, model: str, number: int) -> tuple[str, dict[str, bytes]]:
    """The artifact's tree, and the files of the newest evidence. Raises NotFound, Conflict."""
    with service.ledger.read() as session:
        pointer = registry_reads.get_pointer(session, named_model(model), number)
        signature = latest_signature(session, pointer)
        sealed = sealed_of(session, pointer)
    if signature is None:
        raise NotFound(f"{model}:{number} is not signed: `arl evidence {model}:{number}` signs it")
    files = {
        path: service.store.read_bytes(digest)
        for path, _, _, digest in service.store.manifest(signature.tree)
    }
    return sealed.entry.artifact_digest, files
