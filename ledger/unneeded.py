"""Finds what of the artifact store nothing needs, and takes it away.

A file may go when no tree that the ledger still needs holds it, and nobody stored it or relied on
it for a while: what is being collected now is named in the ledger only in a moment. Killed on the
way, it is found again the next time.
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.artifacts import ArtifactStore
from ledger.database import ReadSession
from ledger.errors import ArtifactCorrupt, NotFound
from ledger.manifests import parse_manifest
from ledger.records import ArtifactRole
from ledger.tree_references import let_go_trees, needed_trees

LET_GO_GRACE_S: Final = 600.0
"""From somebody's last relying on a file to its going, where its tree was let go. Longer than from
storing a tree to its entry's commit."""
ORPHAN_GRACE_S: Final = 86_400.0
"""The same where nothing ever named it: an upload may wait long for its study."""
_DOCUMENT_BYTES: Final = 1 << 20
_TREE: Final = b'[["'
"""What the manifest of a tree with files in it begins with."""
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")


class Why(StrEnum):
    LET_GO = "let_go"
    """Only trees that were let go hold it."""
    ORPHAN = "orphan"
    """Nothing in the ledger names it, or a tree that holds it."""


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A file of the store, or the directory made of a tree."""

    digest: str
    why: Why
    size_bytes: int
    wait_s: float
    """How long nobody must rely on it yet before it goes; 0: it may go now."""
    status: os.stat_result
    is_checkout: bool = False


@dataclass(frozen=True, slots=True)
class Graces:
    let_go_s: float = LET_GO_GRACE_S
    orphan_s: float = ORPHAN_GRACE_S

    def of(self, why: Why) -> float:
        return self.let_go_s if why is Why.LET_GO else self.orphan_s


def find_unneeded(
    session: ReadSession,
    store: ArtifactStore,
    *,
    orphans: bool,
    also_needed: Collection[str] = (),
    also_let_go: Collection[tuple[str, ArtifactRole, str]] = (),
    graces: Graces = Graces(),
) -> list[Unneeded]:
    """In the order in which it may be taken away: of a tree its files before what names them.

    With `orphans` also what nothing names at all; `also_needed` are trees in use that no row
    names, `also_let_go` artifacts (attempt, role, digest) that are about to be let go. Raises
    ArtifactCorrupt: a tree that is needed is damaged, so that its files are not known.
    """
    let_go = let_go_trees(session, also_let_go)
    found = _candidates(store, let_go, orphans=orphans)
    checkouts = {
        tree: status for tree, status in store.checkouts.each() if orphans or tree in let_go
    }
    if not found and not checkouts:
        return []
    for digest in _needed_contents(store, {*needed_trees(session), *also_needed} - let_go):
        found.pop(digest, None)
        checkouts.pop(digest, None)
    now = time.time()
    made = [
        _unneeded(tree, Why.LET_GO if tree in let_go else Why.ORPHAN, status, now, graces)
        for tree, status in checkouts.items()
    ]
    files = [_unneeded(d, why, status, now, graces) for d, (why, status) in found.items()]
    return [
        *(_as_checkout(store, one) for one in made),
        *sorted(files, key=lambda f: f.digest in let_go),
    ]


def discard(store: ArtifactStore, found: Iterable[Unneeded]) -> int:
    """Take away what may go now, unless somebody relied on it meanwhile; bytes freed."""
    freed = 0
    for one in found:
        if one.wait_s > 0:
            continue
        if one.is_checkout:
            store.checkouts.discard(one.digest)
            freed += one.size_bytes
        elif store.objects.discard(one.digest, one.status):
            freed += one.size_bytes
    return freed


def _candidates(
    store: ArtifactStore, let_go: Collection[str], *, orphans: bool
) -> dict[str, tuple[Why, os.stat_result]]:
    found: dict[str, tuple[Why, os.stat_result]] = {}
    for tree in let_go:
        for digest in (tree, *_files_of(store, tree)):
            status = store.objects.status(digest)
            if status is not None:
                found[digest] = (Why.LET_GO, status)
    if orphans:
        for digest, status in store.objects.each():
            found.setdefault(digest, (Why.ORPHAN, status))
    return found


def _files_of(store: ArtifactStore, tree: str) -> Iterator[str]:
    """What a tree holds that was let go; nothing once it is gone, or damaged."""
    if store.objects.status(tree) is None:
        return
    try:
        data = store.objects.read_bytes(tree)
        yield from (content for _, _, _, content in parse_manifest(tree, data))
    except (ArtifactCorrupt, NotFound):
        return


def _needed_contents(store: ArtifactStore, roots: Iterable[str]) -> Iterator[str]:
    """Every digest that is needed: the roots, what documents among them name, and the files of
    every tree. Raises ArtifactCorrupt."""
    pending, seen = list(roots), set[str]()
    while pending:
        digest = pending.pop()
        if digest in seen:
            continue
        seen.add(digest)
        yield digest
        status = store.objects.status(digest)
        if status is None:  # a digest of something else, or lost: `arl verify` tells
            continue
        with store.objects.path(digest).open("rb") as file:
            start = file.read(len(_TREE))
        if start == _TREE:
            yield from _listed(store, digest)
        elif start[:1] == b"{" and status.st_size <= _DOCUMENT_BYTES:
            data = store.objects.read_bytes(digest)
            pending += [found.decode() for found in _DIGEST.findall(data)]


def _listed(store: ArtifactStore, digest: str) -> Iterator[str]:
    """The files of a needed tree. What only looks like one names no files."""
    data = store.objects.read_bytes(digest)
    try:
        manifest = parse_manifest(digest, data)
    except ArtifactCorrupt:
        return  # some file of a data set that begins like one; its bytes are as they were stored
    yield from (content for _, _, _, content in manifest)


def _unneeded(
    digest: str, why: Why, status: os.stat_result, now: float, graces: Graces
) -> Unneeded:
    relied_on = max(status.st_atime, status.st_ctime)
    wait_s = max(0.0, relied_on + graces.of(why) - now)
    return Unneeded(digest, why, status.st_size, wait_s, status)


def _as_checkout(store: ArtifactStore, one: Unneeded) -> Unneeded:
    size = store.checkouts.size_of(one.digest)
    return Unneeded(one.digest, one.why, size, one.wait_s, one.status, is_checkout=True)
