"""A candidate's patch as whole files before and after, for reading side by side."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Final

from ledger.artifacts import ArtifactStore
from ledger.errors import ArlError
from ledger.records import Candidate, Json

SHOWN_BYTES: Final = 256 * 1024
MOST_FILES: Final = 50


def patch_document(
    store: ArtifactStore, candidate: Candidate, parent_source: str | None
) -> dict[str, Json]:
    """Each changed file in its parent's source and in its own, as far as those are stored."""
    return {
        "candidate": candidate.id,
        "parent": candidate.parent_id,
        "patch": candidate.patch,
        "files": list(_files(store, candidate, parent_source)),
    }


def _files(
    store: ArtifactStore, candidate: Candidate, parent_source: str | None
) -> Iterator[dict[str, Json]]:
    if candidate.patch is None:
        return
    before, after = _tree(store, parent_source), _tree(store, candidate.source_digest)
    for path, added, removed in changed_files(candidate.patch)[:MOST_FILES]:
        old, new = _text(store, before.get(path)), _text(store, after.get(path))
        yield {
            "path": path,
            "added": added,
            "removed": removed,
            "before": None if old is None else old[:SHOWN_BYTES],
            "after": None if new is None else new[:SHOWN_BYTES],
            "is_whole": max(len(old or ""), len(new or "")) <= SHOWN_BYTES,
        }


def changed_files(patch: str) -> list[tuple[str, int, int]]:
    """Path, added and removed lines of each file of a unified diff; none of a malformed one."""
    from unidiff import PatchSet, UnidiffParseError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [(found.path, found.added, found.removed) for found in PatchSet(patch)]
    except (UnidiffParseError, ValueError):
        return []


def _tree(store: ArtifactStore, digest: str | None) -> Mapping[str, str]:
    """Content digest by path; empty where the tree is not stored."""
    if digest is None:
        return {}
    try:
        return {path: content for path, _, _, content in store.manifest(digest)}
    except ArlError:
        return {}


def _text(store: ArtifactStore, digest: str | None) -> str | None:
    if digest is None:
        return None
    try:
        return store.read_bytes(digest).decode()
    except (ArlError, UnicodeDecodeError):
        return None
