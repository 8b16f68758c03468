"""Takes what a trial left, as hostile content, into the artifact store.

The attempt is confirmed gone before; still, whatever ran as the same user may hold files open,
so nothing is moved or trusted: names are checked, every file is opened without following links
through its directory's descriptor, checked again once open, and hashed while it is copied.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from evaluator.survey import (
    HOSTILE,
    OPEN_DIR,
    OPEN_FILE,
    CollectLimits,
    FoundFile,
    RuleBroken,
    Survey,
    check_links,
    escaped,
    has_directory,
    opened,
    survey,
)
from inner_trials.contract import FACTS_DIR, MODEL_DIR, RESUME_DIR, ROLLOUTS_DIR
from ledger.artifacts import ArtifactStore
from ledger.errors import InvalidInput
from ledger.records import ArtifactRole

__all__ = ["ROLE_DIRS", "CollectLimits", "Collected", "CollectedTree", "Refused", "collect"]

ROLE_DIRS: Final[Mapping[ArtifactRole, str]] = {
    ArtifactRole.MODEL: MODEL_DIR,
    ArtifactRole.RESUME: RESUME_DIR,
    ArtifactRole.ROLLOUTS: ROLLOUTS_DIR,
    ArtifactRole.FACTS: FACTS_DIR,
}

_STORED_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class CollectedTree:
    """One role's files in the store; the empty tree when there were none."""

    digest: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Collected:
    model: CollectedTree
    resume: CollectedTree
    rollouts: CollectedTree
    facts: CollectedTree


@dataclass(frozen=True, slots=True)
class Refused:
    """The output breaks a rule; nothing of it may be used."""

    path: str
    """Relative to the output directory, escaped to printable ASCII."""
    rule: str

    @property
    def reason(self) -> str:
        return f"output/{self.path} {self.rule}"


def collect(
    root: str,
    store: ArtifactStore,
    *,
    role_dirs: Mapping[ArtifactRole, str] = ROLE_DIRS,
    limits: CollectLimits | None = None,
) -> Collected | Refused:
    """Store the regular files below each role's directory of the output directory `root`.

    A missing or empty role directory gives the empty tree, and so does a role without one.
    Everything else at the top is left alone: nobody reads it. Surveys all of it before it copies
    anything, so that an output that breaks a rule costs no disk. Idempotent. Permissions are not
    kept: files are stored 0644.

    Raises:
        OSError: the output cannot be read for a reason that is not its content.
        DiskFull: the store has no space left.
    """
    try:
        top = os.open(root, OPEN_DIR)
    except FileNotFoundError:
        empty = _store(-1, [], "", store)
        return Collected(empty, empty, empty, empty)
    except OSError as error:
        if error.errno not in HOSTILE:
            raise
        return Refused("", "is not a directory that may be read any more")
    try:
        return _collect(top, store, role_dirs, limits or CollectLimits())
    except RuleBroken as refused:
        return Refused(refused.path, refused.rule)
    finally:
        os.close(top)


def _collect(
    top: int,
    store: ArtifactStore,
    role_dirs: Mapping[ArtifactRole, str],
    limits: CollectLimits,
) -> Collected:
    walk = Survey(limits, os.fstat(top).st_dev)
    found: dict[ArtifactRole, list[FoundFile]] = {}
    for role, name in role_dirs.items():
        walk.files = found[role] = []
        if has_directory(top, name):
            survey(top, name, walk)
    check_links(walk)
    trees = {
        role: _store(top, found.get(role, []), role_dirs.get(role, ""), store)
        for role in ROLE_DIRS
    }
    return Collected(
        model=trees[ArtifactRole.MODEL],
        resume=trees[ArtifactRole.RESUME],
        rollouts=trees[ArtifactRole.ROLLOUTS],
        facts=trees[ArtifactRole.FACTS],
    )


def _store(top: int, files: list[FoundFile], role_dir: str, store: ArtifactStore) -> CollectedTree:
    manifest = []
    for file in sorted(files, key=lambda f: f.path):
        digest, size = _store_file(top, file, store)
        manifest.append((file.path[len(role_dir) + 1 :], _STORED_MODE, size, digest))
    total = sum(size for _, _, size, _ in manifest)
    return CollectedTree(store.put_manifest(manifest), len(manifest), total)


def _store_file(top: int, file: FoundFile, store: ArtifactStore) -> tuple[str, int]:
    """Open the file again from the top, component by component, and copy it if it is still the
    one that was surveyed, byte count included."""
    *parents, name = file.path.split("/")
    directory = os.dup(top)
    try:
        for parent in parents:
            with opened(directory, parent, OPEN_DIR, file.path) as inner:
                os.dup2(inner, directory, inheritable=False)
        with opened(directory, name, OPEN_FILE, file.path) as fd:
            return _copy(fd, file, store)
    finally:
        os.close(directory)


def _copy(fd: int, file: FoundFile, store: ArtifactStore) -> tuple[str, int]:
    status = os.fstat(fd)
    same = stat.S_ISREG(status.st_mode) and file.identity == (status.st_dev, status.st_ino)
    if same:
        try:
            digest, size = store.put_open_file(fd, limit_bytes=file.size)
        except InvalidInput:
            same = False
        else:
            if size == file.size:
                return digest, size
    raise RuleBroken(escaped(file.path), "changed while it was collected")
