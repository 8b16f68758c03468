"""Studies with webhooks, and a notifier over their ledger that waits for nothing long."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from controller.clock import SystemClock
from controller.decisions.notifying import Patience
from controller.settings import Settings, read_settings
from controller.wiring import Service
from controller.worker.leases import owner_name
from controller.worker.notifier import Notifier
from ledger.artifacts import ArtifactStore
from ledger.database import Ledger
from ledger.notification_records import Notification
from ledger.notifications import page_of_notifications
from ledger.records import PausedBy
from ledger.states import Reason, StudyState
from tests.ledger_builders import SPEC, Driven, claim, submit

SOON = Patience(first_s=0.05, longest_s=0.2, tries=4)
PATIENCE_S = 30.0


def service_over(ledger: Ledger, home: Path, **environment: str) -> Service:
    settings: Settings = read_settings({"ARL_HOME": str(home), **environment})
    return Service(
        settings=settings, ledger=ledger, store=ArtifactStore(home / "a"), clock=SystemClock()
    )


def told_study(ledger: Ledger, study_id: str, *webhooks: Mapping[str, Any]) -> Driven:
    """A claimed study whose file names these webhooks."""
    submit(ledger, study_id, spec={**SPEC, "notify": [dict(one) for one in webhooks]})
    return Driven(ledger, study_id, claim(ledger, study_id))


def pauses(study: Driven, *reasons: Reason) -> None:
    """It runs, and is held and let go again for each reason."""
    study.move(StudyState.SUBMITTED, StudyState.PREPARING)
    study.move(StudyState.PREPARING, StudyState.RUNNING)
    for reason in reasons:
        study.move(StudyState.RUNNING, StudyState.PAUSED, reason, PausedBy.CONDITION)
        study.move(StudyState.PAUSED, StudyState.RUNNING)


def fails(study: Driven) -> None:
    study.move(StudyState.SUBMITTED, StudyState.FAILED, Reason.PREPARE_FAILED)


@contextmanager
def notifying(
    service: Service, *, owner: str = "", patience: Patience = SOON
) -> Iterator[Notifier]:
    """`owner`: by default this process; others must be of another host, or count as gone."""
    notifier = Notifier(service, owner or owner_name(service.settings.host), patience)
    notifier.start()
    try:
        yield notifier
    finally:
        notifier.end(0)


def all_of(ledger: Ledger) -> list[Notification]:
    """The oldest first."""
    with ledger.read() as session:
        found = page_of_notifications(session, limit=500).items
    return sorted(found, key=lambda one: (one.queued_at, one.study_id, one.seq))


def wait_for_states(
    ledger: Ledger, *states: str, patience_s: float = PATIENCE_S
) -> list[Notification]:
    """Until the notifications there are stand so."""
    until = time.monotonic() + patience_s
    while True:
        found = all_of(ledger)
        if [str(one.state) for one in found] == list(states):
            return found
        assert time.monotonic() < until, [replace(one, body="") for one in found]
        time.sleep(0.02)
