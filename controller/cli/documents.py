"""Ledger records as the JSON documents that `--json` prints; docs/cli.md describes each."""

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.cli.network import network_document
from controller.cli.text import iso
from ledger import reads, summaries
from ledger.database import ReadSession
from ledger.records import (
    Attempt,
    BudgetLine,
    Candidate,
    Evaluation,
    Family,
    Incumbent,
    Json,
    Study,
    Trial,
    Verdict,
)
from ledger.states import FamilyState, TrialState


def study_document(session: ReadSession, study: Study) -> dict[str, Json]:
    """A study as `run`, `resume` and `show` print it."""
    starts = summaries.first_starts(session, study.id)
    baseline = summaries.baseline_values(session, study.id)
    ended_s = None if study.ended_at is None else study.ended_at - study.created_at
    return {
        "study": study.id,
        "name": study.name,
        "state": str(study.state),
        "reason": _text(study.reason),
        "detail": study.detail,
        "paused_by": _text(study.paused_by),
        "objective": {
            "metric": metric_of(study),
            "direction": "maximize" if reads.maximizes(study) else "minimize",
        },
        "best": _best(session, study),
        "baseline": {
            "values": baseline,
            "mean": sum(baseline) / len(baseline) if baseline else None,
        },
        "noise_floor": summaries.latest_noise_floor(session, study.id),
        "leader": summaries.leader_id(session, study.id),
        "promotion": _promotion(session, study),
        "counts": counts(summaries.count_outcomes(session, study.id)),
        "budgets": budgets_document(reads.load_budgets(session, study.id).values()),
        "network": network_document(session, study),
        "timings": {
            "submitted_at": iso(study.created_at),
            "first_attempt_started_at": iso(starts.attempt),
            "first_trial_started_at": iso(starts.trial),
            "ended_at": iso(study.ended_at),
            "wall_s": ended_s,
            "active_s": study.active_s,
        },
        "worker": study.lease_owner,
        "head": {"seq": study.head_seq, "digest": study.head_digest},
    }


def metric_of(study: Study) -> str:
    """The objective's metric."""
    objective = study.spec.get("objective")
    return str(objective.get("metric", "")) if isinstance(objective, Mapping) else ""


def model_of(study: Study) -> str | None:
    """The name under which its winner is promoted; None without a promotion."""
    promotion = study.spec.get("promotion")
    return str(promotion.get("model")) if isinstance(promotion, Mapping) else None


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _best(session: ReadSession, study: Study) -> Json:
    trial = reads.best_trial(session, study)
    if trial is None:
        return None
    candidate = reads.get_candidate(session, trial.candidate_id)
    return {
        "trial": trial.id,
        "number": trial.number,
        "candidate": candidate.id,
        "value": trial.value,
        "kept": trial.verdict is Verdict.KEEP,
        "params": dict(candidate.params),
    }


def _promotion(session: ReadSession, study: Study) -> Json:
    """Null where nothing was put before the gate; `promoted` says whether it passed."""
    families = reads.list_families(session, study.id)
    if not families:
        return None
    family = families[-1]
    best = family.evidence.get("best")
    return {
        "model": family.model,
        "family": family.id,
        "state": str(family.state),
        "reason": _text(family.reason),
        "promoted": family.state is FamilyState.PROMOTED,
        "candidate": best if isinstance(best, str) else None,
        "gain": family.evidence.get("gain"),
        "ci95": family.evidence.get("ci95"),
    }


def counts(outcomes: list[summaries.OutcomeCount]) -> dict[str, Json]:
    """Trials by kind and outcome: `kept`, `discarded`, `served`, `measured`, or their state."""
    by_kind: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        word = outcome_word(outcome.state, outcome.verdict)
        by_kind.setdefault(str(outcome.kind), Counter())[word] += outcome.count
    found: dict[str, Json] = {kind: dict(counter) for kind, counter in by_kind.items()}
    found["total"] = sum(outcome.count for outcome in outcomes)
    return found


def outcome_word(state: TrialState, verdict: Verdict | None) -> str:
    """How a trial ended, or the state it is in."""
    if state is not TrialState.COMPLETE:
        return str(state)
    if verdict is None:
        return "served"
    return {Verdict.KEEP: "kept", Verdict.DISCARD: "discarded"}.get(verdict, "measured")


def budgets_document(lines: Iterable[BudgetLine]) -> dict[str, Json]:
    """Limit, spent, reserved and overrun by resource, in the resource's own unit."""
    return {
        str(line.resource): {
            "limit": line.limit,
            "spent": line.spent,
            "reserved": line.reserved,
            "overrun": line.overrun,
        }
        for line in lines
    }


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
        "attempts": [attempt_document(attempt) for attempt in detail.attempts],
        "evaluations": [evaluation_document(found) for found in detail.evaluations],
        "artifacts": [
            {
                "role": str(artifact.role),
                "digest": artifact.digest,
                "attempt": artifact.attempt_id,
                "files": artifact.files,
                "size_bytes": artifact.size_bytes,
            }
            for artifact in detail.artifacts
        ],
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


def candidate_document(candidate: Candidate, trials: list[Trial]) -> dict[str, Json]:
    return {
        "candidate": candidate.id,
        "study": candidate.study_id,
        "digest": candidate.digest,
        "state": str(candidate.state),
        "params": dict(candidate.params),
        "parent": candidate.parent_id,
        "proposer": candidate.proposer,
        "rationale": candidate.rationale,
        "source": candidate.source_digest,
        "patch": candidate.patch,
        "trials": [trial_document(trial, candidate) for trial in trials],
    }


def family_document(family: Family) -> dict[str, Json]:
    return {
        "family": family.id,
        "number": family.number,
        "state": str(family.state),
        "reason": _text(family.reason),
        "model": family.model,
        "candidates": list(family.candidates),
        "incumbent": family.incumbent_id,
        "pool": list(family.pool),
        "profile": dict(family.profile),
        "evidence": dict(family.evidence),
        "created_at": iso(family.created_at),
        "ended_at": iso(family.ended_at),
    }


def incumbent_document(incumbent: Incumbent) -> dict[str, Json]:
    return {
        "model": incumbent.model,
        "seq": incumbent.seq,
        "candidate": incumbent.candidate_id,
        "study": incumbent.study_id,
        "family": incumbent.family_id,
        "approver": incumbent.approver,
        "at": iso(incumbent.created_at),
    }
