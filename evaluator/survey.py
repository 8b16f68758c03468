"""Surveys what a trial left without copying any of it: every rule an output must keep."""

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

OPEN_DIR: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking: between the check and the open, a file could have become a fifo.
OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories refused in names: controls, separators, bidirectional, zero-width marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectLimits:
    """Caps on what one attempt may leave, both roles together."""

    total_bytes: int = 64 * 1024**3
    """Of the files' apparent sizes, so that a sparse file counts for what a reader would read."""
    entries: int = 10_000
    """Files and directories."""
    depth: int = 16
    """Directories below `output/model`."""
    path_bytes: int = 1024
    """Of a file's relative path."""


class RuleBroken(Exception):
    def __init__(self, path: str, rule: str) -> None:
        super().__init__(path, rule)
        self.path = path
        self.rule = rule


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    identity: tuple[int, int]
    size: int


@dataclass(slots=True)
class Survey:
    """What a survey of one output has counted so far."""

    limits: CollectLimits
    device: int
    entries: int = 0
    total_bytes: int = 0
    files: list[FoundFile] = field(default_factory=list)
    links: dict[tuple[int, int], tuple[int, int, str]] = field(default_factory=dict)
    """For files with several names: how many exist, how many were seen, one of them."""


def has_directory(parent: int, name: str) -> bool:
    """Whether the role's directory is there. Refuses anything else of that name."""
    try:
        mode = os.lstat(name, dir_fd=parent).st_mode
    except FileNotFoundError:
        return False
    except PermissionError:
        raise RuleBroken(escaped(name), "may not be looked at") from None
    if not stat.S_ISDIR(mode):
        raise RuleBroken(escaped(name), f"is {_kind(mode)}, but must be a directory")
    return True


def survey(parent: int, path: str, walk: Survey, depth: int = 0) -> None:
    """Check and count everything below a directory; recursion is bounded by the depth cap."""
    if depth > walk.limits.depth:
        raise RuleBroken(escaped(path), f"is nested deeper than {walk.limits.depth} directories")
    name = path.rpartition("/")[2]
    with opened(parent, name, OPEN_DIR, path) as directory:
        _check_device(os.fstat(directory), path, walk)
        with os.scandir(directory) as listing:
            names = _checked_names(listing, path, walk)
        for child in sorted(names):
            child_path = f"{path}/{child}"
            status = _lstat(directory, child, child_path)
            if stat.S_ISDIR(status.st_mode):
                survey(directory, child_path, walk, depth + 1)
            else:
                _count_file(status, child_path, walk)


def _checked_names(listing: Iterator[os.DirEntry[str]], path: str, walk: Survey) -> list[str]:
    names = []
    for entry in listing:
        walk.entries += 1
        if walk.entries > walk.limits.entries:
            raise RuleBroken(escaped(path), f"takes the output past {walk.limits.entries} files")
        child_path = f"{path}/{entry.name}"
        try:
            encoded = child_path.encode()
        except UnicodeEncodeError:
            raise RuleBroken(escaped(child_path), "has a name that is not UTF-8") from None
        if len(encoded) > walk.limits.path_bytes:
            raise RuleBroken(
                escaped(child_path), f"has a path longer than {walk.limits.path_bytes} bytes"
            )
        if any(unicodedata.category(c) in _INVISIBLE for c in entry.name):
            raise RuleBroken(
                escaped(child_path), "has a control or invisible character in its name"
            )
        names.append(entry.name)
    return names


def _lstat(directory: int, name: str, path: str) -> os.stat_result:
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        raise RuleBroken(escaped(path), "vanished while it was collected") from None
    except PermissionError:
        raise RuleBroken(escaped(path), "may not be looked at") from None


def _check_device(status: os.stat_result, path: str, walk: Survey) -> None:
    if status.st_dev != walk.device:
        raise RuleBroken(escaped(path), "is on another file system than the output")


def _count_file(status: os.stat_result, path: str, walk: Survey) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise RuleBroken(
            escaped(path), f"is {_kind(status.st_mode)}, but only regular files are collected"
        )
    if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise RuleBroken(escaped(path), "is setuid or setgid")
    _check_device(status, path, walk)
    walk.total_bytes += status.st_size
    if walk.total_bytes > walk.limits.total_bytes:
        raise RuleBroken(escaped(path), f"takes the output past {walk.limits.total_bytes} bytes")
    identity = (status.st_dev, status.st_ino)
    if status.st_nlink > 1:
        _, seen, _ = walk.links.get(identity, (0, 0, ""))
        walk.links[identity] = (status.st_nlink, seen + 1, path)
    walk.files.append(FoundFile(path, identity, status.st_size))


def check_links(walk: Survey) -> None:
    """A file with a name outside the output may be one that the trial could not read itself."""
    for exist, seen, path in walk.links.values():
        if exist > seen:
            raise RuleBroken(escaped(path), "is a hard link to a file outside the output")


def _kind(mode: int) -> str:
    kinds = (
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a fifo"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISREG, "a file"),
    )
    return next((text for matches, text in kinds if matches(mode)), "something unknown")


def escaped(path: str) -> str:
    """Printable ASCII whatever the name holds, cut to a readable length."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isascii() and c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown if len(shown) <= 200 else f"{shown[:100]}...{shown[-97:]}"


class opened:
    """An open descriptor for the length of a with block; refuses what cannot be opened."""

    def __init__(self, parent: int, name: str, flags: int, path: str) -> None:
        try:
            self._fd = os.open(name, flags, dir_fd=parent)
        except OSError as error:
            if error.errno not in HOSTILE:
                raise
            text = os.strerror(error.errno or 0).lower()
            raise RuleBroken(escaped(path), f"cannot be opened: {text}") from None

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


HOSTILE: Final = frozenset(
    {
        errno.ELOOP,
        errno.EACCES,
        errno.EPERM,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.ENODEV,
    }
)
"""What opening fails with because of what the candidate left, rather than of this machine."""
