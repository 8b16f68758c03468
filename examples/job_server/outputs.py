"""What an ended attempt left, as a listing and as bytes; its content is hostile."""

import hashlib
import os
import stat
from collections.abc import Iterator
from urllib.parse import quote, unquote_to_bytes

from ledger.errors import InvalidInput, NotFound
from targets.http_job.documents import OutputEntry, OutputsDoc

PAGE = 1000
PIECE_BYTES = 4 * 1024 * 1024
MAX_ENTRIES = 25_000
"""No client takes more; what comes after is not looked at."""
DIGEST_BYTES = 256 * 1024 * 1024
"""Larger files are listed without a digest: their pieces are signed, as all answers are."""
_DEPTH = 64
_OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLAIN = "".join(chr(c) for c in range(0x20, 0x7F) if chr(c) != "%")


def list_outputs(root: str, after: str) -> OutputsDoc:
    """One page, in the order of the paths' bytes, from the one after `after` on."""
    try:
        top = os.open(root, _OPEN_DIR)
    except OSError:
        return OutputsDoc(entries=[])
    try:
        # Cheap: names only. Everything else is read for one page at a time.
        paths = sorted(_walk(top))
        if after:
            last = unquote_to_bytes(after)
            paths = [path for path in paths if path > last]
        page = paths[:PAGE]
        entries = [_entry(top, path) for path in page]
        rest = quote(page[-1], safe=_PLAIN) if len(paths) > PAGE else None
        return OutputsDoc(entries=entries, after=rest)
    finally:
        os.close(top)


def read_output(root: str, path: str, offset: int, limit: int) -> bytes:
    """Raises NotFound, InvalidInput."""
    raw = unquote_to_bytes(path)
    parts = raw.split(b"/")
    if any(part in (b"", b".", b"..") for part in parts) or b"\0" in raw:
        raise InvalidInput(f"path {path!r}: write a path that the listing has")
    try:
        descriptor = _open(root, parts)
    except OSError:
        raise NotFound(f"there is no output {path!r}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotFound(f"output {path!r} is no regular file")
        return os.pread(descriptor, min(limit, PIECE_BYTES), offset)
    finally:
        os.close(descriptor)


def _open(root: str, parts: list[bytes]) -> int:
    directory = os.open(root, _OPEN_DIR)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _OPEN_DIR, dir_fd=directory)
            os.close(directory)
            directory = inner
        return os.open(parts[-1], _OPEN_FILE, dir_fd=directory)
    finally:
        os.close(directory)


def _walk(top: int) -> Iterator[bytes]:
    """Relative paths of everything, links not followed, up to MAX_ENTRIES."""
    pending: list[bytes] = [b""]
    count = 0
    while pending:
        directory = pending.pop()
        try:
            opened = _open_directory(top, directory)
        except OSError:
            continue
        try:
            with os.scandir(opened) as scan:
                for entry in scan:
                    count += 1
                    if count > MAX_ENTRIES:
                        return
                    name = os.fsencode(entry.name)
                    path = directory + b"/" + name if directory else name
                    yield path
                    if entry.is_dir(follow_symlinks=False) and path.count(b"/") < _DEPTH:
                        pending.append(path)
        finally:
            os.close(opened)


def _open_directory(top: int, path: bytes) -> int:
    directory = os.dup(top)
    if not path:
        return directory
    for part in path.split(b"/"):
        try:
            inner = os.open(part, _OPEN_DIR, dir_fd=directory)
        finally:
            os.close(directory)
        directory = inner
    return directory


def _entry(top: int, path: bytes) -> OutputEntry:
    shown = quote(path, safe=_PLAIN)
    parent, _, name = path.rpartition(b"/")
    try:
        directory = _open_directory(top, parent)
    except OSError:
        return OutputEntry(path=shown, kind="other")
    try:
        status = os.lstat(name, dir_fd=directory)
        if stat.S_ISDIR(status.st_mode):
            return OutputEntry(path=shown, kind="directory")
        if stat.S_ISLNK(status.st_mode):
            return OutputEntry(path=shown, kind="link")
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            # Several names: one may be of a file that the program could not read itself.
            return OutputEntry(path=shown, kind="other")
        descriptor = os.open(name, _OPEN_FILE, dir_fd=directory)
        try:
            size = os.fstat(descriptor).st_size
            digest = _digest(descriptor) if size <= DIGEST_BYTES else None
        finally:
            os.close(descriptor)
        return OutputEntry(path=shown, kind="file", size=size, digest=digest)
    except OSError:
        return OutputEntry(path=shown, kind="other")
    finally:
        os.close(directory)


def _digest(descriptor: int) -> str:
    hasher = hashlib.sha256()
    at = 0
    while piece := os.pread(descriptor, 1 << 20, at):
        hasher.update(piece)
        at += len(piece)
    return hasher.hexdigest()
