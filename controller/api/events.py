"""Events of studies, as pages and as server-sent events. The one asynchronous module of routes:
a stream is open for hours and must not hold a thread.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

import anyio
import anyio.to_thread
from fastapi import Header, Query, Request, Response
from starlette.types import Receive, Scope, Send

from controller.api.access import principal_of
from controller.api.feeds import Feed, Feeds, told
from controller.api.models.events import EventsOut
from controller.api.problems import Refused, documented
from controller.api.reading import Limit, Reader, StudyName, TheService, study_named
from controller.api.routing import new_router
from controller.documents.events import event_document
from controller.documents.finite import flagged
from controller.wiring import Service
from ledger.entry_pages import page_of_entries
from ledger.errors import ArlError, Conflict, InvalidInput
from ledger.records import Study

router = new_router("events")

STREAM: Final = "text/event-stream"
HEARTBEAT_S: Final = 15.0
COALESCE_S: Final = 0.25
"""Between two messages about all studies."""
SEND_PATIENCE_S: Final = 10.0
"""How long a client may leave a message unread before it is dropped."""
PIECE_BYTES: Final = 32 * 1024
LONGEST_SEQ: Final = 2**62
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_BEGIN: Final = b"retry: 1000\n\n"
_HEARTBEAT: Final = b": still here\n\n"
_EVENT: Final[dict[str, Any]] = {
    "type": "object",
    "description": "One event of the stream, its fields as the format names them",
    "required": ["id", "data"],
    "properties": {
        "id": {"type": "string", "description": "What `Last-Event-ID` goes on after"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_CONTENT: Final[dict[str, Any]] = {
    STREAM: {
        "schema": _EVENT,
        "example": {
            "id": "311",
            "data": '{"seq":311,"kind":"trial_decided","at":"…","payload":{}}',
        },
    }
}

LastEventId = Annotated[
    str | None, Header(max_length=20, description="Place of the last event that came")
]


def feeds_of(request: Request) -> Feeds:
    """The app's own, made at its first use."""
    state = request.app.state
    if not hasattr(state, "feeds"):
        state.feeds = Feeds(state.service.ledger)
    found: Feeds = state.feeds
    return found


@router.get(
    "/studies/{study}/events",
    response_model=EventsOut,
    responses={200: {"content": _CONTENT}, **documented(404, 409, 429)},
)
async def follow_study(
    request: Request,
    _: Reader,
    service: TheService,
    study: StudyName,
    since: Annotated[
        int, Query(ge=0, le=LONGEST_SEQ, description="Only what comes after this place")
    ] = 0,
    limit: Limit = 100,
    last_event_id: LastEventId = None,
) -> Any:
    """What happened in a study, in order: a page of JSON, or with `Accept: text/event-stream`
    a stream that goes on. Its ids are places in the study's chain: after a cut, the place of the
    last event that came (as `Last-Event-ID` or `since`) leads to exactly those after it."""
    streams = STREAM in request.headers.get("accept", "")
    if last_event_id is not None and streams:
        since = _place(last_event_id)
    if not streams:
        return await anyio.to_thread.run_sync(_page, service, study, since, limit)
    found = await anyio.to_thread.run_sync(_find, service, study, since)
    feeds = feeds_of(request)
    return EventStream(request, feeds, _of_study(feeds, found.id, since))


@router.get(
    "/events",
    response_class=Response,
    responses={200: {"content": _CONTENT}, **documented(429)},
)
async def follow_all(request: Request, _: Reader) -> Response:
    """How long each chain is, told whenever one grew: a stream only, a few messages a second at
    most, `{"chains": [{"chain", "seq", "state"}]}`. After a cut, ask the lists again."""
    feeds = feeds_of(request)
    return EventStream(request, feeds, _of_all(feeds))


def _place(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) > LONGEST_SEQ:
        raise InvalidInput(f"Last-Event-ID: {text[:20]!r} is no id of this stream's events")
    return int(text)


def _find(service: Service, name: str, since: int) -> Study:
    with service.ledger.read() as session:
        found = study_named(session, name)
    if since > found.head_seq:
        raise Conflict(
            f"since: {since} is beyond the end of study {found.name} ({found.head_seq}): "
            "the ledger is not the one it came from; begin again"
        )
    return found


def _page(service: Service, name: str, since: int, limit: int) -> dict[str, Any]:
    found = _find(service, name, since)
    with service.ledger.read() as session:
        entries = page_of_entries(session, found.id, after=since, limit=limit)
    return {
        "study": found.id,
        "items": [flagged(event_document(entry)) for entry in entries],
        "head_seq": max(found.head_seq, entries[-1].seq if entries else 0),
        "next_since": entries[-1].seq if entries else since,
    }


async def _of_study(feeds: Feeds, study_id: str, since: int) -> AsyncIterator[bytes]:
    feed: Feed = feeds.follow(study_id)
    try:
        while True:
            moved = feed.moved
            fresh = await feeds.after(feed, since)
            if fresh:
                since = fresh[-1].seq
                yield b"".join(event.data for event in fresh)
            elif not await _comes(moved):
                yield _HEARTBEAT
    finally:
        feeds.leave(feed)


async def _of_all(feeds: Feeds) -> AsyncIterator[bytes]:
    feeds.watch()
    known, number = dict(feeds.marks()), 0
    try:
        while True:
            moved, marks = feeds.marks_moved, dict(feeds.marks())
            news = [
                {"chain": chain, "seq": mark.seq, "state": mark.state}
                for chain, mark in marks.items()
                if known and known.get(chain) != mark
            ]
            known = marks
            if news:
                number += 1
                yield told(number, {"chains": news}).data
                await asyncio.sleep(COALESCE_S)
            elif not await _comes(moved):
                yield _HEARTBEAT
    finally:
        feeds.unwatch()


async def _comes(news: asyncio.Event) -> bool:
    """Whether it came before a heartbeat is due."""
    try:
        await asyncio.wait_for(news.wait(), HEARTBEAT_S)
    except TimeoutError:
        return False
    return True


class EventStream(Response):
    """Sends what its source yields. A client that reads too slowly is cut off: it comes back
    with its last event's id, and loses nothing."""

    media_type = STREAM

    def __init__(self, request: Request, feeds: Feeds, source: AsyncIterator[bytes]) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        if feeds.streams >= request.app.state.options.streams:
            raise Refused(
                "too_many",
                f"{feeds.streams} event streams are open; try again later",
                {"Retry-After": "5"},
            )
        self._request = request
        self._feeds = feeds
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._feeds.streams += 1
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._until_gone, receive, group.cancel_scope)
                await self._send_all(send)
                group.cancel_scope.cancel()
        finally:
            self._feeds.streams -= 1
            await _close(self._source)

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _send_all(self, send: Send) -> None:
        now = asyncio.get_running_loop().time
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        if not await _sent(send, _BEGIN):
            return
        looked = now()
        async for data in self._source:
            if data == _HEARTBEAT or now() - looked >= HEARTBEAT_S:  # however much there is to say
                if not await self._may_still_read():
                    return
                looked = now()
            if not await _sent(send, data):
                return

    async def _may_still_read(self) -> bool:
        """A token that was revoked meanwhile reads no further."""
        try:
            await anyio.to_thread.run_sync(principal_of, self._request)
        except ArlError:
            return False
        return True


async def _sent(send: Send, data: bytes) -> bool:
    """False when the client left it unread. A server waits for the client only before it takes
    more, so that a long message goes out in pieces."""
    for start in range(0, len(data), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        with anyio.move_on_after(SEND_PATIENCE_S) as patience:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if patience.cancelled_caught:
            return False
    return True


async def _close(source: AsyncIterator[bytes]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        with anyio.CancelScope(shield=True):
            await close()
