"""HEAD is answered wherever GET is: the same status and headers, and no body."""

from typing import Final

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controller.api.methods import own_methods_at

_END: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": False}


class HeadAsGet:
    """An ASGI layer. What streams is ended where its body would begin: nothing is read for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        own = own_methods_at(scope["app"], scope["path"])
        if "HEAD" in own or "GET" not in own:
            await self._app(scope, receive, send)
            return
        # A copy: the server below looks at its own for whether a body is due.
        asked: Scope = {**scope, "method": "GET"}
        try:
            with anyio.CancelScope() as work:
                await self._app(asked, receive, _headed(send, work))
        finally:
            scope.update({**asked, "method": "HEAD"})


def _headed(send: Send, work: anyio.CancelScope) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] != "http.response.start":
            return
        await send(message)
        await send(_END)
        work.cancel()

    return sent
