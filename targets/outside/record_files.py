"""Small files that several processes write: whole or not at all."""

import fcntl
import json
import mmap
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger.files import write_all
from targets import layout
from targets.outside.facts import Document


def read_document(path: Path) -> Document | None:
    """None where there is none, or it did not survive that the machine went down."""
    try:
        found: Document = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        draft.write_bytes(json.dumps(document).encode())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def write_at(path: Path, start: int, data: bytes) -> None:
    """Write these bytes there. Repeating it changes nothing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        os.lseek(descriptor, start, os.SEEK_SET)
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def size_of(path: Path) -> int:
    """0 where there is no file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """While nobody else has the file locked. Raises FileNotFoundError where there is none, or it
    was deleted meanwhile."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink == 0:
            raise FileNotFoundError(path)
        yield
    finally:
        os.close(descriptor)


def add_line(path: Path, text: str) -> None:
    """Raises OSError unless it got there whole."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        layout.write_whole(descriptor, f"{text}\n".encode("ascii"))
    finally:
        os.close(descriptor)


def find_line(path: Path, beginning: str) -> str | None:
    """What follows `beginning` in the first whole line that has it, without holding the file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            at = data.find(beginning.encode("ascii"))
            end = data.find(b"\n", at)
            return None if min(at, end) < 0 else data[at + len(beginning) : end].decode("ascii")
    except (FileNotFoundError, ValueError):  # there is none, or nothing in it
        return None
