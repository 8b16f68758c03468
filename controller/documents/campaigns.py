"""Campaigns as documents: the list of them, and one with what was measured and what rang."""

from collections.abc import Sequence

from controller.decisions.campaigns import CampaignState, fold_campaign
from controller.documents.times import iso
from ledger.campaign_entries import CampaignAlarm, CampaignRolledBack, SliceMeasured
from ledger.campaigns import CampaignFact
from ledger.entries import payload
from ledger.records import Json


def campaign_rows(facts: Sequence[CampaignFact]) -> list[dict[str, Json]]:
    """The list, by name, from the entries of all campaigns."""
    found: dict[str, list[CampaignFact]] = {}
    for fact in facts:
        found.setdefault(fact.entry.campaign, []).append(fact)
    return [campaign_row(found[name]) for name in sorted(found)]


def campaign_row(facts: Sequence[CampaignFact]) -> dict[str, Json]:
    """One campaign as a row of the list, from all its entries."""
    state = fold_campaign((fact.entry, fact.at) for fact in facts)
    return {
        "campaign": facts[0].entry.campaign,
        "model": "" if state.settings is None else state.settings.model,
        "state": "active" if state.stopped is None else "stopped",
        "new_records": state.new_records,
        "studies": 0 if state.study is None else state.study.study,
        "running": state.running,
        "alarms": len(state.alarms),
        "open_alarm": None if state.pending is None else state.pending.number,
        "began_at": iso(facts[0].at),
        "changed_at": iso(facts[-1].at),
    }


def campaign_document(facts: Sequence[CampaignFact], *, events: int = 50) -> dict[str, Json]:
    """One campaign, from all its entries; the newest `events` of them are listed."""
    state = fold_campaign((fact.entry, fact.at) for fact in facts)
    settings, failed = state.settings, state.failed
    return {
        **campaign_row(facts),
        "file": {} if settings is None else dict(settings.document),
        "evaluator": None if settings is None else settings.bundle_digest,
        "experience": _experience(state),
        "study": _study(state),
        "slices": _slices(facts),
        "shift": _shift(state),
        "alarm_list": _alarms(facts),
        "failed": None if failed is None else {"step": failed.step, "detail": failed.detail},
        "events": [_event(fact) for fact in reversed(facts[-events:])],
    }


def _experience(state: CampaignState) -> dict[str, Json]:
    batches = state.batches
    problems: list[Json] = [f"{b.source}: {p}" for b in batches[-5:] for p in b.problems]
    return {
        "files": len(batches),
        "training": sum(batch.training for batch in batches),
        "held_out": sum(batch.held_out for batch in batches),
        "without_consent": sum(batch.without_consent for batch in batches),
        "invalid": sum(batch.invalid for batch in batches),
        "duplicates": sum(batch.duplicates for batch in batches),
        "problems": problems,
    }


def _study(state: CampaignState) -> dict[str, Json] | None:
    study, ended = state.study, state.ended
    if study is None:
        return None
    return {
        "study": study.study_id,
        "number": study.study,
        "state": "running" if ended is None else ended.state,
        "records": study.records,
        "rows": study.rows,
        "promotion": None if ended is None else ended.promotion,
        "submitted_at": iso(state.study_at),
    }


def _slices(facts: Sequence[CampaignFact]) -> list[Json]:
    """The latest measurement of each slice."""
    latest: dict[str, CampaignFact] = {}
    for fact in facts:
        if isinstance(fact.entry, SliceMeasured):
            latest[fact.entry.slice] = fact
    found: list[Json] = []
    for fact in latest.values():
        entry = fact.entry
        if isinstance(entry, SliceMeasured):
            found.append(
                {
                    "slice": entry.slice,
                    "served_as": entry.served_as,
                    "value": entry.value,
                    "against": entry.against or None,
                    "comparison": dict(entry.comparison) or None,
                    "forgotten": entry.forgotten,
                    "at": iso(fact.at),
                }
            )
    return found


def _shift(state: CampaignState) -> dict[str, Json] | None:
    if state.shift is None:
        return None
    return {
        "prompts": state.shift.prompts,
        "reference": state.shift.reference,
        "statistics": dict(state.shift.statistics),
        "shifted": state.shift.shifted,
    }


def _alarms(facts: Sequence[CampaignFact]) -> list[Json]:
    settled = {f.entry.alarm: f.entry for f in facts if isinstance(f.entry, CampaignRolledBack)}
    found: list[Json] = []
    for fact in reversed(facts):
        entry = fact.entry
        if isinstance(entry, CampaignAlarm):
            end = settled.get(entry.number)
            found.append(
                {
                    "number": entry.number,
                    "alarm": entry.alarm,
                    "action": entry.action,
                    "detail": entry.detail,
                    "promotion": entry.promotion,
                    "back_to": entry.back_to,
                    "settled": None if end is None else end.detail,
                    "pointer": None if end is None else end.pointer,
                    "at": iso(fact.at),
                }
            )
    return found


def _event(fact: CampaignFact) -> dict[str, Json]:
    facts = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in payload(fact.entry).items()
        if name not in ("campaign", "number", "document")
    }
    return {
        "number": fact.entry.number,
        "kind": fact.entry.kind,
        "at": iso(fact.at),
        "facts": facts,
    }
