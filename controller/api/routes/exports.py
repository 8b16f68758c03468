"""A study's trials as files for other tools, byte for byte what `arl export` writes."""

import tempfile
from collections.abc import Generator
from typing import IO, Annotated, Final, cast

from fastapi import Query
from fastapi.responses import StreamingResponse

from controller.api.problems import documented
from controller.api.reading import Reader, StudyName, TheService, study_named
from controller.api.routing import new_router
from controller.api.streams import Pieces
from ledger.export import ExportFormat, export_trials

router = new_router("trials")

_PIECE: Final = 1 << 20
_IN_MEMORY: Final = 8 << 20
_TYPES: Final = {
    ExportFormat.CSV: "text/csv",
    ExportFormat.JSON: "application/json",
    ExportFormat.PARQUET: "application/vnd.apache.parquet",
}
_ROWS: Final = {"schema": {"type": "array", "items": {"type": "object"}}}
_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/studies/{study}/export",
    response_class=StreamingResponse,
    responses={
        200: {"content": {**dict.fromkeys(_TYPES.values(), _BYTES), "application/json": _ROWS}},
        **documented(404, 409, 507),
    },
)
def export(
    _: Reader,
    service: TheService,
    study: StudyName,
    form: Annotated[
        ExportFormat, Query(alias="format", description="What the file is")
    ] = ExportFormat.CSV,
) -> Pieces:
    """Every trial: facts, parameters, scores by split, the last values it reported."""
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))
    pieces = _pieces(file)
    next(pieces)  # from here on it closes the file
    try:
        with service.ledger.read() as session:
            found = study_named(session, study)
            count = export_trials(session, found.id, form, file)  # type: ignore[arg-type]  # what is written to is a file
    except BaseException:
        pieces.close()
        raise
    headers = {
        "Content-Disposition": f'attachment; filename="{found.id}-trials.{form}"',
        "Content-Length": str(file.tell()),
        "Trials": str(count),
        "Study": found.id,
    }
    return Pieces(pieces, media_type=_TYPES[form], headers=headers)


def _pieces(file: IO[bytes]) -> Generator[bytes, None, None]:
    with file:
        yield b""
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece
