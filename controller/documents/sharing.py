"""What a study holds of the machines it runs on, what it waits for, and its share of them."""

from collections.abc import Iterable, Sequence

from controller.documents.times import iso
from ledger import pools
from ledger.database import ReadSession
from ledger.entry_pages import page_of_entries
from ledger.pools import MICRO, Hold, Want
from ledger.records import Json, Study
from ledger.setting_entries import Setting, SettingChanged
from ledger.states import STUDY_TERMINAL


def share_document(session: ReadSession, study: Study) -> dict[str, Json]:
    """Its weight and priority as they are now, and its place in the pools of its hosts."""
    now: dict[str, Json] = {
        str(Setting.WEIGHT): study.spec.get("weight", 1.0),
        str(Setting.PRIORITY): study.spec.get("priority", 0),
    }
    for entry in page_of_entries(session, study.id, kinds=(SettingChanged.kind,), limit=2000):
        if entry.payload["setting"] in now:
            now[str(entry.payload["setting"])] = entry.payload["value"]
    waits = None if study.state in STUDY_TERMINAL else _waits(session, study)
    return {**now, "holds": held_document(pools.holds_of_study(session, study.id)), "waits": waits}


def held_document(holds: Iterable[Hold]) -> list[Json]:
    """What is held, by host."""
    by_host: dict[str, list[Hold]] = {}
    for hold in holds:
        by_host.setdefault(hold.host, []).append(hold)
    return [_sum_document(host, found) for host, found in sorted(by_host.items())]


def want_document(want: Want) -> dict[str, Json]:
    """What a study waits for, since when."""
    return {
        "study": want.study_id,
        "host": want.host,
        "since": iso(want.waits_since),
        "cpus": want.micro_cpus / MICRO,
        "memory_bytes": want.memory_bytes,
        "gpus": want.gpus,
        "weight": want.weight,
        "priority": want.priority,
    }


def _waits(session: ReadSession, study: Study) -> Json:
    """Null while it waits for no room, or for less than a second."""
    wants = [want for want in pools.all_wants(session) if want.waits_since is not None]
    mine = next((want for want in wants if want.study_id == study.id), None)
    if mine is None:
        return None
    others = [
        hold for hold in pools.holds_of_host(session, mine.host) if hold.study_id != study.id
    ]
    return {
        **want_document(mine),
        "held_by_others": _sum_document(mine.host, others),
        "others_waiting": sum(want.host == mine.host for want in wants) - 1,
    }


def _sum_document(host: str, holds: Sequence[Hold]) -> dict[str, Json]:
    return {
        "host": host,
        "studies": len({hold.study_id for hold in holds}),
        "trials": len(holds),
        "cpus": sum(hold.micro_cpus for hold in holds) / MICRO,
        "memory_bytes": sum(hold.memory_bytes for hold in holds),
        "gpu_ids": sorted(gpu for hold in holds for gpu in hold.gpu_ids),
    }
