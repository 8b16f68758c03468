"""Logs of attempts that are over, as local targets keep them: how large they are, and cutting the
beginning of those that are too large. Standard library only."""

import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from targets import layout, program_log

_SUFFIXES = (f".{layout.LOG}", f".{layout.ANSWERER_LOG}")
_PIECE_BYTES = 1 << 20


@dataclass(slots=True)
class KeptLog:
    """Everything that is kept of what one program said."""

    path: str
    """Without the offset that a later piece of it has in its name."""
    owner: str
    """The trial's id, or that of the study for what prepared it."""
    attempt: str
    """The attempt's id."""
    size_bytes: int = 0
    changed_at: float = 0.0
    pieces: list[tuple[int, str]] = field(default_factory=list)
    """Each with the offset of its first byte, in order."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A log that lost, or would lose, its beginning."""

    log: KeptLog
    size_bytes: int
    """How much of it."""


def log_folders(home: str) -> list[str]:
    """Where the targets below ARL's home keep logs."""
    found = []
    for entry in os.scandir(home):
        folder = os.path.join(entry.path, layout.LOGS)
        if os.path.isdir(os.path.join(entry.path, layout.ATTEMPTS)) and os.path.isdir(folder):
            found.append(folder)
    return sorted(found)


def kept_logs(folder: str, owners: Container[str] | None = None) -> list[KeptLog]:
    """Every log in a folder, or those of some owners: only these files are looked at."""
    found: dict[str, KeptLog] = {}
    for entry in os.scandir(folder):
        base, start = _parts(entry.name)
        attempt = _attempt(base)
        if attempt is None:
            continue
        owner = attempt.partition(".")[0]
        if owners is not None and owner not in owners:
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        log = found.setdefault(base, KeptLog(f"{folder}/{base}", owner, attempt))
        log.size_bytes += status.st_size
        log.changed_at = max(log.changed_at, status.st_mtime)
        log.pieces.append((start, entry.path))
    return list(found.values())


def _parts(name: str) -> tuple[str, int]:
    base, _, last = name.rpartition(".")
    return (base, int(last)) if base and last.isdecimal() else (name, 0)


def _attempt(base: str) -> str | None:
    """The id of the attempt that a log is named by; None for another file."""
    for suffix in _SUFFIXES:
        if base.startswith("arl-") and base.endswith(suffix):
            return base[len("arl-") : -len(suffix)]
    return None


def find_cuts(logs: Iterable[KeptLog], limit_bytes: int) -> Iterator[Cut]:
    """What goes so that a trial's logs together are no larger than the limit: the latest are kept
    whole first, and of the one that is too large then its end."""
    left = limit_bytes
    for log in sorted(logs, key=lambda log: (log.changed_at, log.path), reverse=True):
        if log.size_bytes > left:
            yield Cut(log, log.size_bytes - left)
        left = max(0, left - log.size_bytes)


def cut(found: Cut) -> None:
    """Take the beginning of a log away; whoever reads it is told how much is missing."""
    keep = found.log.size_bytes - found.size_bytes
    pieces = program_log.log_files(found.log.path)
    for start, path in reversed(pieces):
        size = _size(path)
        if keep >= size:
            keep -= size
            continue
        if keep >= 0 and (keep or path == pieces[-1][1]):
            _write_end(found.log.path, path, start + size - keep, keep)
        keep = -1 if keep >= 0 else keep
        os.unlink(path)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _write_end(log: str, path: str, start: int, length: int) -> None:
    """A piece with the last bytes of another one, under the name that says where it begins."""
    draft = f"{path}.cut"
    with open(path, "rb") as source, open(draft, "wb") as target:
        source.seek(-length, os.SEEK_END) if length else source.seek(0, os.SEEK_END)
        while data := source.read(_PIECE_BYTES):
            target.write(data)
    os.replace(draft, f"{log}.{start}")
