"""The fact that what a trial saved was let go, and the closed list of reasons why."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from ledger.records import ArtifactRole


class ReleaseReason(StrEnum):
    """Why an artifact was let go."""

    NOT_AMONG_BEST = "not_among_best"
    NOT_THE_LAST = "not_the_last"
    NOT_KEPT = "not_kept"
    """The study keeps no checkpoints but those that something needs."""
    WITHOUT_SCORE = "without_score"
    """Its trial ended without a value to rank it by."""
    TRIAL_OVER = "trial_over"
    """A resume state: only the same trial's training could have used it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactReleased:
    """What a trial saved is needed no more, and its bytes may go once nothing else names them."""

    kind: ClassVar[str] = "artifact_released"
    attempt_id: str
    trial_id: str
    role: ArtifactRole
    digest: str
    size_bytes: int
    reason: ReleaseReason
    policy: str
    """As the study file or the operator wrote it, like `best-5`."""
    actor: str
