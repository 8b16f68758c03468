"""Trials as documents: one as a row of a list, one with everything that belongs to it."""

from controller.documents.artifacts import artifact_document
from controller.documents.times import iso
from ledger import reads
from ledger.records import Attempt, Candidate, Evaluation, Json, Trial, Verdict
from ledger.states import TrialState


def outcome_word(state: TrialState, verdict: Verdict | None) -> str:
    """How a trial ended, or the state it is in."""
    if state is not TrialState.COMPLETE:
        return str(state)
    if verdict is None:
        return "served"
    return {Verdict.KEEP: "kept", Verdict.DISCARD: "discarded"}.get(verdict, "measured")


def trial_document(trial: Trial, candidate: Candidate) -> dict[str, Json]:
    """One trial as a row of a list."""
    return {
        "id": trial.id,
        "study": trial.study_id,
        "number": trial.number,
        "kind": str(trial.kind),
        "state": str(trial.state),
        "outcome": outcome_word(trial.state, trial.verdict),
        "reason": _text(trial.reason),
        "detail": trial.detail,
        "value": trial.value,
        "candidate": candidate.id,
        "params": dict(candidate.params),
        "seed": trial.seed,
        "watermark": trial.watermark,
        "finish_seq": trial.finish_seq,
        "splits": [str(split) for split in trial.splits],
        "family": trial.family_id,
        "stage": trial.stage,
        "created_at": iso(trial.created_at),
        "started_at": iso(trial.started_at),
        "ended_at": iso(trial.ended_at),
        "wall_s": duration_of(trial),
    }


def duration_of(trial: Trial) -> float | None:
    """Seconds from its first process to its end."""
    if trial.started_at is None or trial.ended_at is None:
        return None
    return trial.ended_at - trial.started_at


def detail_document(detail: reads.TrialDetail) -> dict[str, Json]:
    """One trial with everything that belongs to it."""
    decision = detail.decision
    return {
        **trial_document(detail.trial, detail.candidate),
        "proposer": detail.candidate.proposer,
        "parent": detail.candidate.parent_id,
        "rationale": detail.candidate.rationale,
        "patch": detail.candidate.patch,
        "attempts": [attempt_document(attempt) for attempt in detail.attempts],
        "evaluations": [evaluation_document(found) for found in detail.evaluations],
        "artifacts": [artifact_document(artifact) for artifact in detail.artifacts],
        "decision": None
        if decision is None
        else {
            "verdict": str(decision.verdict),
            "reason": str(decision.reason),
            "compared_with": decision.compared_with,
            "margin": decision.margin,
            "noise_floor": decision.noise_floor,
        },
        "latest": [{"metric": v.metric, "step": v.step, "value": v.value} for v in detail.latest],
    }


def attempt_document(attempt: Attempt) -> dict[str, Json]:
    return {
        "id": attempt.id,
        "kind": str(attempt.kind),
        "index": attempt.index,
        "split": _text(attempt.split),
        "state": str(attempt.state),
        "reason": _text(attempt.reason),
        "detail": attempt.detail,
        "target": attempt.target,
        "host": attempt.host,
        "exit_code": attempt.exit_code,
        "timeout_s": attempt.timeout_s,
        "wall_s": attempt.wall_s,
        "cpu_s": attempt.cpu_s,
        "max_rss_bytes": attempt.max_rss_bytes,
        "started_at": iso(attempt.started_at),
        "ended_at": iso(attempt.ended_at),
    }


def evaluation_document(evaluation: Evaluation) -> dict[str, Json]:
    return {
        "split": str(evaluation.split),
        "value": evaluation.value,
        "scores": dict(evaluation.scores),
        "items": len(evaluation.items),
        "bundle": evaluation.bundle_digest,
        "artifact": evaluation.artifact_digest,
        "attempt": evaluation.attempt_id,
    }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
