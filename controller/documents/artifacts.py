"""Stored trees as documents: their files, as far as they are listed."""

from collections.abc import Iterable
from typing import Final

from controller.documents.times import iso
from ledger.artifacts import ArtifactStore
from ledger.errors import ArlError
from ledger.records import Artifact, Json

MOST_FILES: Final = 1000


def artifact_document(artifact: Artifact) -> dict[str, Json]:
    return {
        "role": str(artifact.role),
        "digest": artifact.digest,
        "attempt": artifact.attempt_id,
        "files": artifact.files,
        "size_bytes": artifact.size_bytes,
        "let_go": None
        if artifact.released_at is None
        else {
            "at": iso(artifact.released_at),
            "reason": artifact.release_reason,
            "policy": artifact.release_policy,
        },
    }


def tree_document(store: ArtifactStore, digest: str) -> dict[str, Json]:
    """Its first files by path; none where it is not stored any more."""
    try:
        manifest = store.manifest(digest)
    except ArlError:
        return {"listed": [], "is_listed_whole": False, "is_stored": False}
    return {
        "listed": [
            {"path": path, "size_bytes": size, "digest": content}
            for path, _mode, size, content in manifest[:MOST_FILES]
        ],
        "is_listed_whole": len(manifest) <= MOST_FILES,
        "is_stored": True,
    }


def artifacts_document(
    store: ArtifactStore, trial_id: str, artifacts: Iterable[Artifact]
) -> dict[str, Json]:
    """What a trial's attempts left, each with its files."""
    listed: list[Json] = [
        {**artifact_document(found), **tree_document(store, found.digest)} for found in artifacts
    ]
    return {"trial": trial_id, "items": listed}
