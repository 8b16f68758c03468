"""What was changed of a study since it was accepted, from the entries that say so."""

from collections.abc import Iterable, Mapping
from typing import Final

from controller.documents.times import iso
from ledger.database import ReadSession
from ledger.entries import BudgetChanged, CommandApplied, StudySubmitted
from ledger.entry_pages import page_of_entries
from ledger.records import EntryRecord, Json, Study
from ledger.setting_entries import Setting, SettingChanged

_KINDS: Final = tuple(
    kind.kind for kind in (StudySubmitted, BudgetChanged, SettingChanged, CommandApplied)
)
_MOST: Final = 2000


def revisions_document(session: ReadSession, study: Study) -> list[Json]:
    """Each change with who asked for it, the first one first."""
    return _revisions(study, page_of_entries(session, study.id, kinds=_KINDS, limit=_MOST))


def _revisions(study: Study, entries: Iterable[EntryRecord]) -> list[Json]:
    now = dict(_fields(study.spec, Setting))
    changes: list[Json] = []
    revisions: list[Json] = []
    for entry in entries:
        if entry.kind != CommandApplied.kind:
            after = _after(entry)
            if entry.kind != StudySubmitted.kind:
                changes += [
                    {"field": name, "before": now.get(name), "after": value}
                    for name, value in after.items()
                    if now.get(name) != value
                ]
            now.update(after)
        elif changes:  # the command that they came of is recorded after them
            actor, at = entry.payload.get("actor"), iso(entry.at)
            revisions.append({"seq": entry.seq, "at": at, "actor": actor, "changes": changes})
            changes = []
    return revisions


def _after(entry: EntryRecord) -> dict[str, Json]:
    """Fields of the study file as they are from this entry on."""
    if entry.kind == StudySubmitted.kind:
        return dict(_fields({"budget": entry.payload.get("budgets")}, ("budget",)))
    if entry.kind == BudgetChanged.kind:
        return {f"budget.{entry.payload['resource']}": entry.payload["limit"]}
    setting = str(entry.payload["setting"])
    return dict(_fields({setting: entry.payload["value"]}, (setting,)))


def _fields(document: Mapping[str, Json], names: Iterable[str]) -> Iterable[tuple[str, Json]]:
    for name in names:
        value = document.get(name)
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", item) for key, item in value.items())
        else:
            yield name, value
