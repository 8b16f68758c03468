"""States, the only legal moves between them, and the closed list of reasons why things end."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from ledger.errors import IllegalTransition


class StudyState(StrEnum):
    SUBMITTED = "submitted"
    PREPARING = "preparing"
    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    REPLAYING = "replaying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    IMPORTED = "imported"
    """Another tool's history: read-only, never run, compared or promoted."""


class TrialState(StrEnum):
    PROPOSED = "proposed"
    RUNNING = "running"
    EVALUATING = "evaluating"
    DECIDING = "deciding"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    LAUNCHING = "launching"
    RUNNING = "running"
    EXITED = "exited"
    COLLECTED = "collected"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    LOST = "lost"


class CandidateState(StrEnum):
    PENDING = "pending"
    KEPT = "kept"
    DISCARDED = "discarded"
    FAILED = "failed"


class FamilyState(StrEnum):
    OPEN = "open"
    PASSED = "passed"
    REFUSED = "refused"
    INCONCLUSIVE = "inconclusive"
    AWAITING_APPROVAL = "awaiting_approval"
    PROMOTED = "promoted"
    DECLINED = "declined"


class ConversionState(StrEnum):
    OPEN = "open"
    SERVABLE = "servable"
    REFUSED = "refused"
    FAILED = "failed"


class FaultClass(StrEnum):
    """Whose doing an ending was. Retry policy reads this and never a message."""

    NONE = "none"
    CANDIDATE = "candidate"
    EVALUATOR = "evaluator"
    PROPOSER = "proposer"
    INFRASTRUCTURE = "infrastructure"
    OPERATOR = "operator"


S = TypeVar(
    "S", StudyState, TrialState, AttemptState, CandidateState, FamilyState, ConversionState
)

# States only go forward: a retry is a new attempt and a replay a new trial, never a step back.
# One table per kind, because equal values of two StrEnums are equal dictionary keys.

_STUDY_ENDS: Final = frozenset({StudyState.FAILED, StudyState.CANCELLED})

STUDY_TRANSITIONS: Final[Mapping[StudyState, frozenset[StudyState]]] = {
    StudyState.SUBMITTED: frozenset({StudyState.PREPARING, StudyState.IMPORTED}) | _STUDY_ENDS,
    StudyState.PREPARING: frozenset({StudyState.RUNNING, StudyState.PAUSED}) | _STUDY_ENDS,
    StudyState.RUNNING: frozenset({StudyState.PAUSED, StudyState.DRAINING}) | _STUDY_ENDS,
    # A pause goes back to where it came from: a full disk may pause a study at any point.
    StudyState.PAUSED: frozenset(
        {
            StudyState.PREPARING,
            StudyState.RUNNING,
            StudyState.DRAINING,
            StudyState.REPLAYING,
        }
    )
    | _STUDY_ENDS,
    StudyState.DRAINING: frozenset({StudyState.REPLAYING, StudyState.PAUSED}) | _STUDY_ENDS,
    StudyState.REPLAYING: frozenset({StudyState.COMPLETED, StudyState.PAUSED}) | _STUDY_ENDS,
    # Only by a command: to search on (extend, trial), or to judge (replay, convert).
    StudyState.COMPLETED: frozenset({StudyState.RUNNING, StudyState.REPLAYING}),
}

_TRIAL_ENDS: Final = frozenset({TrialState.FAILED, TrialState.CANCELLED})

TRIAL_TRANSITIONS: Final[Mapping[TrialState, frozenset[TrialState]]] = {
    # Straight to complete only by being served: a duplicate answered from the ledger.
    TrialState.PROPOSED: frozenset({TrialState.RUNNING, TrialState.COMPLETE}) | _TRIAL_ENDS,
    TrialState.RUNNING: frozenset({TrialState.EVALUATING, TrialState.PRUNED}) | _TRIAL_ENDS,
    TrialState.EVALUATING: frozenset({TrialState.DECIDING}) | _TRIAL_ENDS,
    TrialState.DECIDING: frozenset({TrialState.COMPLETE}) | _TRIAL_ENDS,
}

_ATTEMPT_LOSSES: Final = frozenset({AttemptState.CANCELLED, AttemptState.LOST})

ATTEMPT_TRANSITIONS: Final[Mapping[AttemptState, frozenset[AttemptState]]] = {
    AttemptState.LAUNCHING: frozenset({AttemptState.RUNNING}) | _ATTEMPT_LOSSES,
    AttemptState.RUNNING: frozenset({AttemptState.EXITED}) | _ATTEMPT_LOSSES,
    AttemptState.EXITED: frozenset({AttemptState.COLLECTED, AttemptState.REJECTED})
    | _ATTEMPT_LOSSES,
}

CANDIDATE_TRANSITIONS: Final[Mapping[CandidateState, frozenset[CandidateState]]] = {
    CandidateState.PENDING: frozenset(CandidateState) - {CandidateState.PENDING},
}

FAMILY_TRANSITIONS: Final[Mapping[FamilyState, frozenset[FamilyState]]] = {
    FamilyState.OPEN: frozenset(
        {FamilyState.PASSED, FamilyState.REFUSED, FamilyState.INCONCLUSIVE}
    ),
    FamilyState.PASSED: frozenset(
        {FamilyState.AWAITING_APPROVAL, FamilyState.PROMOTED, FamilyState.DECLINED}
    ),
    FamilyState.AWAITING_APPROVAL: frozenset({FamilyState.PROMOTED, FamilyState.DECLINED}),
}

CONVERSION_TRANSITIONS: Final[Mapping[ConversionState, frozenset[ConversionState]]] = {
    ConversionState.OPEN: frozenset(ConversionState) - {ConversionState.OPEN},
}

STUDY_TERMINAL: Final = frozenset(
    {StudyState.COMPLETED, StudyState.FAILED, StudyState.CANCELLED, StudyState.IMPORTED}
)
TRIAL_TERMINAL: Final = frozenset(
    {TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAILED, TrialState.CANCELLED}
)
ATTEMPT_TERMINAL: Final = frozenset(
    {
        AttemptState.COLLECTED,
        AttemptState.REJECTED,
        AttemptState.CANCELLED,
        AttemptState.LOST,
    }
)


def check_transition(table: Mapping[S, frozenset[S]], subject: str, current: S, new: S) -> None:
    """Raise IllegalTransition unless `table` lets `current` become `new`."""
    if new not in table.get(current, frozenset()):
        raise IllegalTransition(subject, current, new)


class Reason(StrEnum):
    """Why a study, trial or attempt ended, or a decision went as it did. A closed list."""

    # decisions on a trial
    BETTER = "better"
    TIE = "tie"
    WORSE = "worse"
    MEASURED = "measured"
    INFEASIBLE = "infeasible"
    DUPLICATE = "duplicate"
    NOT_FINITE = "not_finite"
    PRUNED_MEDIAN = "pruned_median"
    PRUNED_FORECAST = "pruned_forecast"
    PRUNED_PERCENTILE = "pruned_percentile"
    PRUNED_ASHA = "pruned_asha"
    PRUNED_HYPERBAND = "pruned_hyperband"
    PRUNED_THRESHOLD = "pruned_threshold"
    PRUNED_PATIENT = "pruned_patient"
    PRUNED_WILCOXON = "pruned_wilcoxon"
    # another tool's word
    IMPORTED = "imported"
    # the candidate's doing
    EXIT_NONZERO = "exit_nonzero"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    STALLED = "stalled"
    OUT_OF_MEMORY = "out_of_memory"
    TOO_MANY_PROCESSES = "too_many_processes"
    TOO_MUCH_DATA = "too_much_data"
    OUTPUT_REFUSED = "output_refused"
    NO_MODEL = "no_model"
    NO_METRIC = "no_metric"
    INVALID_PLAN = "invalid_plan"
    MALFORMED_PATCH = "malformed_patch"
    NO_CHANGE = "no_change"
    # the evaluator's doing
    EVALUATOR_ERROR = "evaluator_error"
    BUNDLE_CHANGED = "bundle_changed"
    # the proposer's doing
    PROPOSER_ERROR = "proposer_error"
    # the infrastructure's doing
    LAUNCH_FAILED = "launch_failed"
    IMAGE_MISSING = "image_missing"
    ATTEMPT_LOST = "attempt_lost"
    ACTORS_LOST = "actors_lost"
    TARGET_UNAVAILABLE = "target_unavailable"
    DISK_FULL = "disk_full"
    ARTIFACT_CORRUPT = "artifact_corrupt"
    # the operator's doing
    CANCELLED_BY_OPERATOR = "cancelled_by_operator"
    STOPPED_BY_OPERATOR = "stopped_by_operator"
    PAUSED_BY_OPERATOR = "paused_by_operator"
    HOST_GONE = "host_gone"
    # why a study stopped looking
    GOAL_REACHED = "goal_reached"
    GOAL_MET_BY_BASE = "goal_met_by_base"
    BUDGET_TRIALS = "budget_trials"
    BUDGET_WALL_TIME = "budget_wall_time"
    BUDGET_GPU_HOURS = "budget_gpu_hours"
    BUDGET_LLM_TOKENS = "budget_llm_tokens"
    BUDGET_LLM_COST = "budget_llm_cost"
    NO_IMPROVEMENT = "no_improvement"
    FAILURE_RATE = "failure_rate"
    CONSECUTIVE_FAILURES = "consecutive_failures"
    SPACE_EXHAUSTED = "space_exhausted"
    BASELINE_FAILED = "baseline_failed"
    PREPARE_FAILED = "prepare_failed"
    CONTAMINATED = "contaminated"
    # how a replay family ended
    PROMOTED = "promoted"
    PASSED = "passed"
    STAGE1_FUTILITY = "stage1_futility"
    INTERIM_FUTILITY = "interim_futility"
    NOT_SIGNIFICANT = "not_significant"
    NOT_CONFIRMED = "not_confirmed"
    GUARD_REGRESSED = "guard_regressed"
    HOLDOUT_BUDGET_SPENT = "holdout_budget_spent"
    NO_CANDIDATE = "no_candidate"
    POOL_TOO_SMALL = "pool_too_small"
    INCUMBENT_MOVED = "incumbent_moved"
    LINEAGE_INCOMPLETE = "lineage_incomplete"
    DECLINED_BY_OPERATOR = "declined_by_operator"
    STUDY_ENDED = "study_ended"
    # how a conversion was judged
    NOT_INFERIOR = "not_inferior"
    INFERIOR = "inferior"
    NO_ITEMS = "no_items"


_CANDIDATE = FaultClass.CANDIDATE
_INFRASTRUCTURE = FaultClass.INFRASTRUCTURE

_FAULTS: Final[Mapping[Reason, FaultClass]] = {
    Reason.NOT_FINITE: _CANDIDATE,
    Reason.EXIT_NONZERO: _CANDIDATE,
    Reason.CRASHED: _CANDIDATE,
    Reason.TIMED_OUT: _CANDIDATE,
    Reason.STALLED: _CANDIDATE,
    Reason.OUT_OF_MEMORY: _CANDIDATE,
    Reason.TOO_MANY_PROCESSES: _CANDIDATE,
    Reason.TOO_MUCH_DATA: _CANDIDATE,
    Reason.OUTPUT_REFUSED: _CANDIDATE,
    Reason.NO_MODEL: _CANDIDATE,
    Reason.NO_METRIC: _CANDIDATE,
    Reason.INVALID_PLAN: _CANDIDATE,
    Reason.MALFORMED_PATCH: _CANDIDATE,
    Reason.NO_CHANGE: _CANDIDATE,
    Reason.EVALUATOR_ERROR: FaultClass.EVALUATOR,
    Reason.BUNDLE_CHANGED: FaultClass.EVALUATOR,
    Reason.PROPOSER_ERROR: FaultClass.PROPOSER,
    Reason.LAUNCH_FAILED: _INFRASTRUCTURE,
    Reason.IMAGE_MISSING: _INFRASTRUCTURE,
    Reason.ATTEMPT_LOST: _INFRASTRUCTURE,
    Reason.ACTORS_LOST: _INFRASTRUCTURE,
    Reason.TARGET_UNAVAILABLE: _INFRASTRUCTURE,
    Reason.DISK_FULL: _INFRASTRUCTURE,
    Reason.ARTIFACT_CORRUPT: _INFRASTRUCTURE,
    Reason.CANCELLED_BY_OPERATOR: FaultClass.OPERATOR,
    Reason.STOPPED_BY_OPERATOR: FaultClass.OPERATOR,
    Reason.PAUSED_BY_OPERATOR: FaultClass.OPERATOR,
    Reason.HOST_GONE: FaultClass.OPERATOR,
    Reason.DECLINED_BY_OPERATOR: FaultClass.OPERATOR,
    Reason.STUDY_ENDED: FaultClass.OPERATOR,
}


FREE: Final = frozenset({Reason.INVALID_PLAN, Reason.IMPORTED})
"""Endings that cost no budget: refused before anything ran, or run by another tool."""


def fault_class(reason: Reason) -> FaultClass:
    """Whose doing it is; FaultClass.NONE for an ordinary ending."""
    return _FAULTS.get(reason, FaultClass.NONE)
