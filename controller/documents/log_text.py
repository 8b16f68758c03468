"""What a program said, made safe to print: capped, leniently decoded, nothing in it obeyed."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from controller.documents.plain_text import plain
from controller.settings import read_settings
from ledger.errors import ArlError
from ledger.records import Attempt
from targets.protocol import LogChunk

if TYPE_CHECKING:
    from targets.protocol import Target

CHUNK: Final = 256 * 1024


class LogReader:
    """The logs that targets keep on this machine: an attempt is with one of them."""

    def __init__(self, targets: list["Target"]) -> None:
        self._targets = targets

    def read_log(self, handle: str, *, offset: int, limit: int) -> LogChunk:
        """As targets.protocol.Target."""
        chunks = (t.read_log(handle, offset=offset, limit=limit) for t in self._targets)
        return next((chunk for chunk in chunks if chunk.size), LogChunk(b"", offset, 0))


@contextmanager
def log_reader() -> Iterator[LogReader]:
    """Quicker to open than the whole service."""
    from controller.places import used_places
    from ledger.artifacts import ArtifactStore
    from targets.registry import make_target

    settings = read_settings()
    store = ArtifactStore(settings.home / "artifacts")
    targets = [make_target(name, place) for name, place in used_places(settings, store)]
    try:
        yield LogReader(targets)
    finally:
        for target in targets:
            target.close()


def handle_of(attempt: Attempt) -> str:
    """By which its target finds it, also when it never came to be written down."""
    return attempt.handle or f"arl-{attempt.id}"


def find_log_tail(reader: LogReader, attempt: Attempt, length: int) -> str:
    """The last `length` bytes, safe; empty where there is no log (any more, or on this host)."""
    try:
        size = reader.read_log(handle_of(attempt), offset=0, limit=0).size
        chunk = reader.read_log(
            handle_of(attempt), offset=max(0, size - length), limit=length + CHUNK
        )
    except (ArlError, OSError):
        return ""
    return LogText().add(chunk.data[-length:]).strip("\n")


class LogText:
    """Turns the bytes of a log into safe text, chunk by chunk."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, data: bytes) -> str:
        text = self._decoder.decode(data)
        return plain(text.replace("\r\n", "\n").replace("\r", "\n"), keep="\n\t")
