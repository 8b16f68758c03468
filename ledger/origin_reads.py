"""Reads for a promotion's lineage: where a trial ran, what it left, what its study used up."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from ledger.database import ReadSession
from ledger.records import ArtifactRole
from ledger.rows import ARTIFACTS, ATTEMPTS, TRIALS


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOrigin:
    """What is known of one trial beside its scores."""

    seed: int | None
    places: Sequence[tuple[str, str]]
    """(target, host) of its attempts, each pair once."""
    resumed: Sequence[str]
    """Tree digests of the checkpoints that its later attempts went on from, in order."""
    facts: str | None
    """Tree digest of what its program said it ran with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTotals:
    """Of every attempt of a study that has exited."""

    attempts: int
    wall_s: float
    cpu_s: float
    gpu_s: float


def trial_origin(session: ReadSession, trial_id: str) -> TrialOrigin:
    """Empty for a trial that there is not."""
    run = session.connection.execute
    seed = run(select(TRIALS.c.seed).where(TRIALS.c.id == trial_id)).scalar()
    places = select(ATTEMPTS.c.target, ATTEMPTS.c.host).where(ATTEMPTS.c.trial_id == trial_id)
    kept = select(ARTIFACTS.c.role, ARTIFACTS.c.digest).where(
        ARTIFACTS.c.trial_id == trial_id,
        ARTIFACTS.c.role.in_((ArtifactRole.RESUME, ArtifactRole.FACTS)),
    )
    found = [tuple(row) for row in run(kept.order_by(ARTIFACTS.c.created_at))]
    facts = [digest for role, digest in found if role == ArtifactRole.FACTS]
    return TrialOrigin(
        seed=seed,
        places=sorted((row.target, row.host) for row in run(places.distinct())),
        resumed=[digest for role, digest in found if role == ArtifactRole.RESUME],
        facts=facts[-1] if facts else None,
    )


def attempt_totals(session: ReadSession, study_id: str) -> AttemptTotals:
    columns = (ATTEMPTS.c.wall_s, ATTEMPTS.c.cpu_s, ATTEMPTS.c.gpu_s_spent)
    query = select(func.count(), *(func.coalesce(func.sum(c), 0.0) for c in columns)).where(
        ATTEMPTS.c.study_id == study_id, ATTEMPTS.c.wall_s.is_not(None)
    )
    count, wall_s, cpu_s, gpu_s = session.connection.execute(query).one()
    return AttemptTotals(attempts=count, wall_s=wall_s, cpu_s=cpu_s, gpu_s=gpu_s)
