"""What can go wrong. Each error has a stable code; none knows about HTTP or exit statuses."""

from typing import ClassVar


class ArlError(Exception):
    """Base of every error ARL raises on purpose; its text is one sentence for a person."""

    code: ClassVar[str] = "error"


class NotFound(ArlError):
    """No study, trial, candidate or artifact has that name."""

    code = "not_found"


class ArtifactLetGo(NotFound):
    """What a trial saved was let go on purpose, by the study's retention."""

    code = "artifact_let_go"


class InvalidInput(ArlError):
    """Something a user wrote is wrong; the message names the field, the value and the rule."""

    code = "invalid_input"


class Conflict(ArlError):
    """The request is well formed but the present state does not allow it."""

    code = "conflict"


class StaleFence(ArlError):
    """Another worker drives the study now, so nothing of this batch may be written."""

    code = "stale_fence"


class StudyBusy(ArlError):
    """A live worker holds the study's lease."""

    code = "study_busy"


class IllegalTransition(ArlError):
    """A state may only move forward along its table."""

    code = "illegal_transition"

    def __init__(self, subject: str, current: str, new: str) -> None:
        super().__init__(f"{subject} is {current} and may not become {new}")
        self.current = current
        self.new = new


class BudgetExceeded(ArlError):
    """A reservation would take a budget past its limit."""

    code = "budget_exceeded"


class UnknownName(ArlError):
    """A study names a proposer, target, pruner or program that is not registered."""

    code = "unknown_name"


class BundleChanged(ArlError):
    """The evaluator bundle's bytes no longer match the digest the study was submitted with."""

    code = "bundle_changed"


class ArtifactCorrupt(ArlError):
    """A stored file's bytes no longer match its digest."""

    code = "artifact_corrupt"


class LedgerTooNew(ArlError):
    """The database was written by a newer ARL than this one."""

    code = "ledger_too_new"


class LedgerTooOld(ArlError):
    """The database needs `arl db upgrade` before this ARL can use it."""

    code = "ledger_too_old"


class DiskFull(ArlError):
    """The file system of the ledger, the artifact store or the attempts has no space left."""

    code = "disk_full"


class LedgerUnavailable(ArlError):
    """The database cannot be opened, or does not answer."""

    code = "ledger_unavailable"


class LedgerRestored(ArlError):
    """The database holds less than was once written to it: an older copy took its place."""

    code = "ledger_restored"


class TargetUnavailable(ArlError):
    """The place where attempts run cannot be reached; infrastructure, never the candidate."""

    code = "target_unavailable"


class ProposerFailed(ArlError):
    """A proposer raised or returned something outside its contract."""

    code = "proposer_failed"
