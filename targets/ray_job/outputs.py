"""What an attempt left on its node, on its way to the collector: everything as it was, or as
something that the collector refuses by the same rule."""

import hashlib
import itertools
import json
import os
import stat
from dataclasses import dataclass, field
from typing import IO, Final

from targets.ray_job.trees import (
    Damaged,
    check_path,
    copy,
    extract,
    read_header,
    sha_of,
    write_header,
)
from targets.shared_store import SharedStore

ROLES: Final = ("model", "resume", "rollouts")
"""What is collected of an output; the rest is for people and only its beginning travels."""
_ENTRIES: Final = 20_000
"""Of one role: twice what the collector takes, so that it sees that there are too many."""
_OTHER_ENTRIES: Final = 500
_OTHER_BYTES: Final = 4 << 20
_DEPTH: Final = 40
_PATH_BYTES: Final = 2000


@dataclass(frozen=True, slots=True)
class OutputEntry:
    path: str
    kind: str
    """file, dir, link, or other: what is no file is made again as something that the collector
    refuses by the same rule."""
    executable: bool = False
    size: int = 0
    sha256: str = ""
    names: int = 1
    """How many names the file has; one outside of the output shows in it."""
    same_as: int = -1
    """Index of the entry that is another name of this file."""


@dataclass(slots=True)
class OutputSurvey:
    """What there is to send of an output, in order."""

    root: str
    limit_bytes: int | None
    entries: list[OutputEntry] = field(default_factory=list)
    total_bytes: int = 0
    is_too_much: bool = False
    """It passes the limit; what would have is listed as something the collector refuses."""
    _seen: dict[tuple[int, int], int] = field(default_factory=dict)

    def take(self) -> None:
        """List everything. Raises OSError when the output cannot be read at all."""
        try:
            names = sorted(os.listdir(self.root), key=lambda name: (name not in ROLES, name))
        except FileNotFoundError:
            return
        for name in names:
            most = len(self.entries) + (_ENTRIES if name in ROLES else _OTHER_ENTRIES)
            self._walk(name, most, is_role=name in ROLES)

    def _walk(self, top: str, most: int, *, is_role: bool) -> None:
        pending = [top]
        while pending and len(self.entries) < most:
            path = pending.pop()
            status = os.lstat(f"{self.root}/{path}")
            if not stat.S_ISDIR(status.st_mode):
                self._add_file(path, status, is_role=is_role)
                continue
            try:
                children = self._children(path, most)
            except PermissionError:
                self.entries.append(OutputEntry(path, "other"))
            else:
                self.entries.append(OutputEntry(path, "dir"))
                pending += children

    def _children(self, path: str, most: int) -> list[str]:
        """None of a directory so deep that the collector refuses it as it is."""
        if path.count("/") >= _DEPTH or len(os.fsencode(path)) >= _PATH_BYTES:
            return []
        with os.scandir(f"{self.root}/{path}") as listing:
            return [f"{path}/{entry.name}" for entry in itertools.islice(listing, most)]

    def _add_file(self, path: str, status: os.stat_result, *, is_role: bool) -> None:
        mode = status.st_mode
        if stat.S_ISLNK(mode):
            self.entries.append(OutputEntry(path, "link"))
            return
        if not stat.S_ISREG(mode) or mode & (stat.S_ISUID | stat.S_ISGID):
            self.entries.append(OutputEntry(path, "other"))
            return
        identity = (status.st_dev, status.st_ino)
        if identity in self._seen:
            same = self._seen[identity]
            self.entries.append(OutputEntry(path, "file", names=status.st_nlink, same_as=same))
            return
        limit = self.limit_bytes if is_role else _OTHER_BYTES
        if limit is not None and self.total_bytes + status.st_size > limit:
            self.is_too_much |= is_role
            self.entries.append(OutputEntry(path, "other"))
            return
        self._add_regular(path, status)

    def _add_regular(self, path: str, status: os.stat_result) -> None:
        try:
            sha = sha_of(f"{self.root}/{path}")
        except PermissionError:
            self.entries.append(OutputEntry(path, "other"))
            return
        self.total_bytes += status.st_size
        self._seen[status.st_dev, status.st_ino] = len(self.entries)
        self.entries.append(
            OutputEntry(
                path,
                "file",
                executable=bool(status.st_mode & 0o111),
                size=status.st_size,
                sha256=sha,
                names=status.st_nlink,
            )
        )


def send_output(store: SharedStore, path: str, survey: OutputSurvey) -> str:
    """Write an ended attempt's output and return the digest that its record must name."""
    rows = [
        [e.path, e.kind, e.executable, e.size, e.sha256, e.names, e.same_as]
        for e in survey.entries
    ]
    header = json.dumps(rows, separators=(",", ":")).encode()
    with store.writer(path) as out:
        write_header(out, header)
        for entry in survey.entries:
            if entry.kind == "file" and entry.same_as < 0:
                copy(f"{survey.root}/{entry.path}", out)
    return hashlib.sha256(header).hexdigest()


def fetch_output(store: SharedStore, path: str, digest: str, directory: str) -> None:
    """Make the output again in a new directory, as hostile as it was. Raises Damaged."""
    with store.reader(path) as source:
        if source is None:
            raise Damaged(f"the output {path} is not in {store.url}")
        header = read_header(source)
        if hashlib.sha256(header).hexdigest() != digest:
            raise Damaged(f"the output {path} in {store.url} is damaged: its list of files")
        entries = [OutputEntry(*row) for row in json.loads(header)]
        os.makedirs(f"{directory}/output", mode=0o700)
        for index, entry in enumerate(entries):
            check_path(entry.path)
            _make(source, entries, index, directory)


def _make(source: IO[bytes], entries: list[OutputEntry], index: int, directory: str) -> None:
    """One entry. None lies below a link: a directory was listed before what is in it."""
    entry = entries[index]
    target = f"{directory}/output/{entry.path}"
    if entry.kind == "dir":
        os.mkdir(target, 0o700)
    elif entry.kind == "link":
        os.symlink("outside", target)
    elif entry.kind == "other":
        os.mkfifo(target, 0o600)
    elif entry.same_as >= 0:
        os.link(f"{directory}/output/{entries[entry.same_as].path}", target)
    else:
        mode = 0o755 if entry.executable else 0o644
        extract(source, target, mode, entry.size, entry.sha256)
        seen = 1 + sum(other.same_as == index for other in entries) if entry.names > 1 else 1
        if entry.names > seen:
            os.link(target, f"{directory}/name-outside-{index}")
