"""Reads of what trials saved that was not let go: whose it is, and what else names it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import select

from ledger.database import ReadSession
from ledger.entries import CandidatePromoted
from ledger.records import Artifact, ArtifactRole, Trial
from ledger.rows import ARTIFACTS, ENTRIES, STUDIES, TRIALS, artifact_from, trial_from
from ledger.service_entries import PromotionSigned, ServingJudged, ServingSet
from ledger.trial_parts import chunks

_NAMING = (PromotionSigned.kind, ServingJudged.kind, ServingSet.kind)


@dataclass(frozen=True, slots=True)
class SavedArtifact:
    artifact: Artifact
    trial: Trial


def saved_artifacts(
    session: ReadSession, study_id: str, roles: Collection[ArtifactRole]
) -> Sequence[SavedArtifact]:
    """What trials saved in these roles, with something in it, that was not let go; by trial."""
    query = (
        select(ARTIFACTS)
        .join(TRIALS, TRIALS.c.id == ARTIFACTS.c.trial_id)
        .where(
            TRIALS.c.study_id == study_id,
            ARTIFACTS.c.role.in_(roles),
            ARTIFACTS.c.released_at.is_(None),
            ARTIFACTS.c.files > 0,
        )
    )
    found = [artifact_from(row) for row in session.connection.execute(query)]
    trials = trials_by_id(session, {str(artifact.trial_id) for artifact in found})
    pairs = [SavedArtifact(artifact, trials[str(artifact.trial_id)]) for artifact in found]
    return sorted(pairs, key=lambda pair: (pair.trial.number, pair.artifact.attempt_id))


def trials_by_id(session: ReadSession, ids: Collection[str]) -> dict[str, Trial]:
    """Those of the trials that there are."""
    found: dict[str, Trial] = {}
    for chunk in chunks(sorted(ids)):
        rows = session.connection.execute(select(TRIALS).where(TRIALS.c.id.in_(chunk)))
        found.update((row.id, trial_from(row)) for row in rows)
    return found


def studies_with_checkpoints(session: ReadSession) -> Sequence[str]:
    """Ids of studies of whose trials something was saved and not let go."""
    query = (
        select(TRIALS.c.study_id)
        .join(ARTIFACTS, TRIALS.c.id == ARTIFACTS.c.trial_id)
        .where(ARTIFACTS.c.released_at.is_(None), ARTIFACTS.c.files > 0)
        .distinct()
        .order_by(TRIALS.c.study_id)
    )
    return list(session.connection.execute(query).scalars())


def named_elsewhere(
    session: ReadSession, study_id: str, digests: Collection[str]
) -> frozenset[str]:
    """Those of the trees that an input of any study, what is or was served, evidence, or the
    lineage of something this study promoted names."""
    found = set()
    for digest in digests:
        part = f"%{digest}%"
        studies = select(STUDIES.c.id).where(
            STUDIES.c.inputs.like(part) | STUDIES.c.spec.like(part)
        )
        served = select(ENTRIES.c.seq).where(
            ENTRIES.c.chain == "service",
            ENTRIES.c.kind.in_(_NAMING),
            ENTRIES.c.body.like(part),
        )
        promoted = select(ENTRIES.c.seq).where(
            ENTRIES.c.chain == study_id,
            ENTRIES.c.kind == CandidatePromoted.kind,
            ENTRIES.c.body.like(part),
        )
        for query in (studies, served, promoted):
            if session.connection.execute(query.limit(1)).first() is not None:
                found.add(digest)
    return frozenset(found)


def find_release(session: ReadSession, digest: str) -> Artifact | None:
    """How a tree was let go that trials left; None while one of them still keeps it, or where no
    trial left it."""
    query = select(ARTIFACTS).where(
        ARTIFACTS.c.digest == digest, ARTIFACTS.c.trial_id.is_not(None)
    )
    rows = [artifact_from(row) for row in session.connection.execute(query)]
    if any(row.released_at is None for row in rows):
        return None
    return max(rows, key=lambda row: row.released_at or 0.0, default=None)
