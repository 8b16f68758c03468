"""News of studies for event streams: one look at the ledger serves all who follow.

Asynchronous, like `events`: thousands of streams wait here at the price of one.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar, TypeVarTuple, Unpack

import anyio
import anyio.to_thread

from controller.documents.events import event_document
from controller.documents.finite import flagged
from ledger.commit_watch import CommitWatch
from ledger.database import Ledger
from ledger.entry_pages import chain_marks, page_of_entries
from ledger.errors import ArlError

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

log = logging.getLogger("arl.api.events")

LOOK_EVERY_S: Final = 0.05
REST_S: Final = 1.0
"""After a look that failed."""
KEPT_EVENTS: Final = 500
"""Of each followed study, for those who are not far behind."""
READ_AT_ONCE: Final = 200
THREADS: Final = 4
"""That streams read with, beside those of the requests."""


@dataclass(frozen=True, slots=True)
class Told:
    """One event as it is sent."""

    seq: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """How long a chain is, and in which state its study."""

    seq: int
    state: str | None


@dataclass(slots=True)
class Feed:
    """What the streams of one study share."""

    study_id: str
    followers: int = 0
    head_seq: int = 0
    recent: "deque[Told]" = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    moved: asyncio.Event = field(default_factory=asyncio.Event)


def told(seq: int, document: object) -> Told:
    """As a server-sent event. JSON escapes line breaks, so the data is one line."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Told(seq, f"id: {seq}\ndata: {text}\n\n".encode("utf-8", "replace"))


class Feeds:
    """Belongs to one event loop."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._feeds: dict[str, Feed] = {}
        self._marks: dict[str, Mark] = {}
        self._watchers = 0
        self._looking: asyncio.Task[None] | None = None
        self._limiter = anyio.CapacityLimiter(THREADS)
        self.marks_moved = asyncio.Event()
        self.streams = 0

    def follow(self, study_id: str) -> Feed:
        """Undone by `leave`."""
        feed = self._feeds.setdefault(study_id, Feed(study_id))
        feed.followers += 1
        self._start()
        return feed

    def leave(self, feed: Feed) -> None:
        feed.followers -= 1
        if not feed.followers:
            self._feeds.pop(feed.study_id, None)
        self._stop_if_idle()

    def watch(self) -> None:
        """All studies at once; undone by `unwatch`."""
        self._watchers += 1
        self._start()

    def unwatch(self) -> None:
        self._watchers -= 1
        self._stop_if_idle()

    def marks(self) -> dict[str, Mark]:
        """Every chain as it was at the last look."""
        return self._marks

    async def after(self, feed: Feed, since: int) -> list[Told]:
        """Some events that come right after place `since`; none where there are none yet."""
        if feed.head_seq and since >= feed.head_seq:
            return []
        if feed.recent and feed.recent[0].seq <= since + 1:
            return [found for found in feed.recent if found.seq > since]
        return await self._run(self._read, feed.study_id, since)

    async def _run(self, function: Callable[[Unpack[Ts]], R], *arguments: *Ts) -> R:
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._limiter)

    def _read(self, study_id: str, since: int) -> list[Told]:
        with self._ledger.read() as session:
            entries = page_of_entries(session, study_id, after=since, limit=READ_AT_ONCE)
        return [told(entry.seq, flagged(event_document(entry))) for entry in entries]

    def _start(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def _stop_if_idle(self) -> None:
        if not self._feeds and not self._watchers and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        """Until nobody follows: whatever moved is read once and told to all."""
        watch = CommitWatch(self._ledger)
        try:
            while True:
                try:
                    if await self._run(watch.has_news):
                        await self._tell(await self._run(self._read_marks))
                    await asyncio.sleep(LOOK_EVERY_S)
                except ArlError as error:
                    log.warning("events wait: %s", error)
                    await asyncio.sleep(REST_S)
        finally:
            watch.close()

    def _read_marks(self) -> dict[str, Mark]:
        with self._ledger.read() as session:
            return {chain: Mark(*mark) for chain, mark in chain_marks(session).items()}

    async def _tell(self, marks: dict[str, Mark]) -> None:
        for feed in list(self._feeds.values()):
            mark = marks.get(feed.study_id)
            if mark is None or mark.seq == feed.head_seq:
                continue
            if feed.head_seq:
                await self._extend(feed, mark.seq)
            else:
                feed.head_seq = mark.seq
            _wake(feed)
        if marks != self._marks:
            self._marks = marks
            self.marks_moved.set()
            self.marks_moved = asyncio.Event()

    async def _extend(self, feed: Feed, head_seq: int) -> None:
        """Keep what is new; after a long jump each stream reads for itself."""
        if head_seq - feed.head_seq > KEPT_EVENTS:
            feed.recent.clear()
            feed.head_seq = head_seq
            return
        while feed.head_seq < head_seq:
            fresh = await self._run(self._read, feed.study_id, feed.head_seq)
            if not fresh:
                return
            feed.recent.extend(fresh)
            feed.head_seq = fresh[-1].seq


def _wake(feed: Feed) -> None:
    feed.moved.set()
    feed.moved = asyncio.Event()
