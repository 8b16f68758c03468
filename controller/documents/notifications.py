"""What webhooks are sent, and how it stands with each notification."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from controller.documents.finite import flagged
from controller.documents.plain_text import plain
from controller.documents.studies import metric_of
from controller.documents.times import iso
from controller.spec.notify import Event
from ledger import reads
from ledger.database import ReadSession
from ledger.notification_records import Notification, message_id
from ledger.outcome_counts import OutcomeCounts
from ledger.records import EntryRecord, Json, Study

LONGEST: Final = 500
"""Characters of a text that a program or a service wrote."""

Payload = Mapping[str, Json]


def notification_document(one: Notification) -> dict[str, Json]:
    """One as lists show it."""
    return {
        "notification": one.id,
        "message": one.message_id,
        "study": one.study_id,
        "seq": one.seq,
        "event": one.event,
        "webhook": one.webhook,
        "signed_with": one.secret,
        "state": str(one.state),
        "tries": one.tries,
        "status": one.status,
        "detail": one.detail,
        "created_at": iso(one.created_at),
        "tried_at": iso(one.tried_at),
        "next_at": iso(one.next_at) if one.state == "waiting" else None,
        "done_at": iso(one.done_at),
    }


def message_text(
    session: ReadSession, study: Study, entry: EntryRecord, event: Event, public_url: str | None
) -> str:
    """The body that a webhook is sent: strict JSON, the same each time it is sent."""
    facts = _FACTS.get(event, _study_facts)(session, study, entry.payload)
    document: dict[str, Json] = {
        "type": str(event),
        "timestamp": iso(entry.at),
        "data": {
            "message": message_id(study.id, entry.seq),
            "study": study.id,
            "name": study.name,
            "seq": entry.seq,
            "link": None if public_url is None else f"{public_url}/studies/{study.id}",
            "objective": {
                "metric": metric_of(study),
                "direction": "maximize" if reads.maximizes(study) else "minimize",
            },
            "best": _best(session, study),
            **facts,
        },
    }
    return json.dumps(flagged(document), allow_nan=False, ensure_ascii=False)


def _best(session: ReadSession, study: Study) -> Json:
    trial = reads.best_trial(session, study)
    if trial is None:
        return None
    return {
        "trial": trial.id,
        "number": trial.number,
        "candidate": trial.candidate_id,
        "value": trial.value,
    }


def _study_facts(session: ReadSession, study: Study, payload: Payload) -> dict[str, Json]:
    outcomes = OutcomeCounts().of(session, study)
    # Completing has no reason of its own: why it stopped looking was said when it did.
    reason = payload["reason"] if payload["reason"] is not None else study.reason
    return {
        "state": payload["new"],
        "reason": None if reason is None else str(reason),
        "detail": _short(payload["detail"]),
        "trials": sum(outcome.count for outcome in outcomes),
    }


def _waiting_facts(session: ReadSession, study: Study, payload: Payload) -> dict[str, Json]:
    return {"detail": _short(payload["detail"])}


def _family_facts(session: ReadSession, study: Study, payload: Payload) -> dict[str, Json]:
    family = reads.get_family(session, str(payload["family_id"]))
    return {
        "model": family.model,
        "family": family.id,
        "state": payload["new"],
        "reason": payload["reason"],
        **_evidence(payload),
    }


def _promoted_facts(session: ReadSession, study: Study, payload: Payload) -> dict[str, Json]:
    return {
        "model": payload["model"],
        "family": payload["family_id"],
        "previous": payload["previous_id"],
        "artifact": payload["artifact_digest"],
        "approver": payload["approver"],
        **_evidence(payload),
        "candidate": payload["candidate_id"],
    }


def _evidence(payload: Payload) -> dict[str, Json]:
    """Who won, and by how much, where the gate came so far."""
    evidence = payload["evidence"]
    found = evidence if isinstance(evidence, Mapping) else {}
    best, gain, ci95 = found.get("best"), found.get("gain"), found.get("ci95")
    return {
        "candidate": best if isinstance(best, str) else None,
        "gain": gain if isinstance(gain, int | float) else None,
        "ci95": ci95 if isinstance(ci95, Sequence) and not isinstance(ci95, str) else None,
    }


def _kept_facts(session: ReadSession, study: Study, payload: Payload) -> dict[str, Json]:
    names = ("trial_id", "candidate_id", "value", "compared_with", "margin")
    return {name.removesuffix("_id"): payload[name] for name in names}


def _failed_facts(session: ReadSession, study: Study, payload: Payload) -> dict[str, Json]:
    return {
        "trial": payload["trial_id"],
        "candidate": payload["candidate_id"],
        "reason": payload["reason"],
        "detail": _short(payload["detail"]),
    }


def _short(text: Json) -> str:
    shown = plain(str(text or ""))
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"


_FACTS: Final[Mapping[Event, Callable[[ReadSession, Study, Payload], dict[str, Json]]]] = {
    Event.PROPOSER_WAITS: _waiting_facts,
    Event.PROMOTION_AWAITING: _family_facts,
    Event.PROMOTION_REFUSED: _family_facts,
    Event.CANDIDATE_PROMOTED: _promoted_facts,
    Event.CANDIDATE_KEPT: _kept_facts,
    Event.TRIAL_FAILED: _failed_facts,
}
