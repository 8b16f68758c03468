"""Facts about a study that another tool ran: what it said, never what ARL measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from ledger.records import Params
from ledger.states import TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyImported:
    """The study is another tool's history. It is never run, compared or promoted."""

    kind: ClassVar[str] = "study_imported"
    source: str
    """The tool: optuna or autoresearch-rl."""
    location: str
    """Where it was read, without a password."""
    name: str
    """What the study is called there."""
    content: str
    """sha256 of everything that was taken over."""
    trials: int
    origin: str
    """JSON text: what the tool says of the study and the study file cannot."""
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialImported:
    """One trial as the other tool recorded it, whole. Its scores belong to no evaluator bundle."""

    kind: ClassVar[str] = "trial_imported"
    trial_id: str
    number: int
    candidate_id: str
    digest: str
    new_candidate: bool
    params: Params
    state: TrialState
    detail: str
    value: float | None
    """The objective; None where there is none or it is not finite."""
    scores: Mapping[str, float]
    """Every finite objective by its metric."""
    attempt_id: str | None
    """What carries the scores and the values reported on the way; None where there are neither."""
    finish_seq: int
    started_at: float | None
    ended_at: float | None
    origin: str
    """JSON text: what the tool says of the trial and these fields cannot."""


ImportEntry: TypeAlias = StudyImported | TrialImported
