"""A body that is made piece by piece, and let go of however its reading ends."""

from collections.abc import Generator, Mapping

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class Pieces(StreamingResponse):
    """Closes what makes the pieces: a client that left, or asked for the head alone, leaves no
    open file behind."""

    def __init__(
        self,
        pieces: Generator[bytes, None, None],
        *,
        media_type: str,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._pieces.close()
