"""What a program said, made safe to print: capped, leniently decoded, nothing in it obeyed."""

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from controller.cli.text import plain
from controller.settings import read_settings
from ledger.errors import ArlError
from ledger.records import Attempt

if TYPE_CHECKING:
    from targets.local_process import LocalProcessTarget

CHUNK: Final = 256 * 1024


@contextmanager
def log_reader() -> Iterator["LocalProcessTarget"]:
    """The target whose logs are on this machine; quicker to open than the whole service."""
    from ledger.artifacts import ArtifactStore
    from targets.local_process import LocalProcessTarget

    settings = read_settings()
    store = ArtifactStore(settings.home / "artifacts")
    reader = LocalProcessTarget(settings.home / "local", store, host=settings.host)
    try:
        yield reader
    finally:
        reader.close()


def handle_of(attempt: Attempt) -> str:
    """By which its target finds it, also when it never came to be written down."""
    return attempt.handle or f"arl-{attempt.id}"


def find_log_tail(reader: "LocalProcessTarget", attempt: Attempt, length: int) -> str:
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
