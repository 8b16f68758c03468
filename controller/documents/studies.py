"""Studies as documents: how one stands, what it cost, what its gate said."""

from collections import Counter
from collections.abc import Iterable, Mapping

from controller.documents.candidates import family_document, incumbent_document
from controller.documents.model_calls import model_document
from controller.documents.network import NetworkSums, network_document
from controller.documents.revisions import revisions_document
from controller.documents.sharing import share_document
from controller.documents.times import iso
from controller.documents.trials import attempt_document, outcome_word
from ledger import reads, summaries
from ledger.database import ReadSession
from ledger.model_reads import model_use
from ledger.outcome_counts import OutcomeCount, OutcomeCounts
from ledger.records import BudgetLine, Json, Study, Verdict
from ledger.states import FamilyState
from ledger.study_pages import LastEntry, StudyTally


def study_document(
    session: ReadSession,
    study: Study,
    outcomes: OutcomeCounts | None = None,
    network: NetworkSums | None = None,
) -> dict[str, Json]:
    """A study as `run`, `resume` and `show` print it; `outcomes` and `network`, of a process that
    asks again and again, save counting."""
    counted = outcomes or OutcomeCounts()
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
        "counts": counts(counted.of(session, study)),
        "budgets": budgets_document(reads.load_budgets(session, study.id).values()),
        "network": network_document(session, study, network),
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


def counts(outcomes: Iterable[OutcomeCount]) -> dict[str, Json]:
    """Trials by kind and outcome: `kept`, `discarded`, `served`, `measured`, or their state."""
    by_kind: dict[str, Counter[str]] = {}
    total = 0
    for outcome in outcomes:
        total += outcome.count
        word = outcome_word(outcome.state, outcome.verdict)
        by_kind.setdefault(str(outcome.kind), Counter())[word] += outcome.count
    found: dict[str, Json] = {kind: dict(counter) for kind, counter in by_kind.items()}
    found["total"] = total
    return found


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


def listed_document(summary: reads.StudySummary) -> dict[str, Json]:
    """A study as a row of a list."""
    study = summary.study
    return {
        "study": study.id,
        "name": study.name,
        "state": str(study.state),
        "reason": _text(study.reason),
        "metric": metric_of(study),
        "best_value": summary.best_value,
        "trials": {str(state): count for state, count in summary.trials.items()},
        "submitted_at": iso(study.created_at),
        "ended_at": iso(study.ended_at),
        "worker": study.lease_owner,
    }


def whole_document(
    session: ReadSession,
    study: Study,
    outcomes: OutcomeCounts | None = None,
    network: NetworkSums | None = None,
) -> dict[str, Json]:
    """A study with its families, its model's incumbents, what waits, and its preparing."""
    model = model_of(study)
    incumbents = [] if model is None else reads.list_incumbents(session, model)
    use = model_use(session, study.id)
    return {
        **study_document(session, study, outcomes, network),
        "bundle": study.bundle_digest,
        "families": [family_document(f) for f in reads.list_families(session, study.id)],
        "incumbents": [incumbent_document(incumbent) for incumbent in incumbents],
        "pending_commands": [
            {"id": c.id, "verb": str(c.verb), "actor": c.actor, "at": iso(c.created_at)}
            for c in reads.pending_commands(session, study.id)
        ],
        "model_use": None if use is None else model_document(use),
        "revisions": revisions_document(session, study),
        "share": share_document(session, study),
        "prepare": [attempt_document(a) for a in summaries.prepare_attempts(session, study.id)],
    }


def row_document(
    study: Study, tally: StudyTally, budgets: Iterable[BudgetLine], last: LastEntry | None
) -> dict[str, Json]:
    """A study as a row of a page: with its budgets and the latest thing that happened."""
    return {
        "study": study.id,
        "name": study.name,
        "state": str(study.state),
        "reason": _text(study.reason),
        "metric": metric_of(study),
        "direction": "maximize" if reads.maximizes(study) else "minimize",
        "best_value": tally.best_value,
        "trials": {str(state): count for state, count in tally.trials.items()},
        "total": sum(tally.trials.values()),
        "budgets": budgets_document(budgets),
        "last_event": None
        if last is None
        else {"seq": last.seq, "kind": last.kind, "at": iso(last.at)},
        "submitted_at": iso(study.created_at),
        "ended_at": iso(study.ended_at),
        "worker": study.lease_owner,
    }


def spec_document(session: ReadSession, study: Study) -> dict[str, Json]:
    """The study file as accepted, and what was changed since."""
    return {
        "study": study.id,
        "digest": study.spec_digest,
        "spec": dict(study.spec),
        "inputs": dict(study.inputs),
        "bundle": study.bundle_digest,
        "revisions": revisions_document(session, study),
    }
