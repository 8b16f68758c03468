"""Runs a worker in this process for some studies, shows how they go, and handles Ctrl-C."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from controller.cli.endings import ending_lines
from controller.cli.log_lines import listen_to_the_worker
from controller.cli.opening import remember_heads
from controller.cli.output import INTERRUPTED, OK, STUDY_FAILED, console, print_json
from controller.cli.progress import Watch
from controller.cli.text import plain, several
from controller.documents.studies import study_document
from controller.registry.signing import sign_unsigned
from controller.signals import heard_by
from controller.wiring import Service
from controller.worker.driver import StudyDriver
from controller.worker.leases import describe_holder, is_owner_gone
from controller.worker.loop import Callbacks, Worker
from controller.worker.recovery import Recovery
from ledger import reads
from ledger.errors import StudyBusy
from ledger.records import Json, Study
from ledger.states import STUDY_TERMINAL, StudyState


class Interrupt:
    """A first signal asks the worker to stop; a second one leaves at once."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.number = 0
        """The signal that came; 0 while none did."""

    def __call__(self, number: int, _: FrameType | None) -> None:
        if self.number:
            os._exit(INTERRUPTED)
        self.number = number
        self._worker.stop()

    @contextmanager
    def installed(self) -> Iterator["Interrupt"]:
        with heard_by(self):
            yield self


def check_free(service: Service, study: Study) -> None:
    """Raises StudyBusy while a live worker drives the study."""
    if is_driven(service, study):
        raise StudyBusy(
            f"study {study.name} ({study.id}) is driven by {describe_holder(study)} already: "
            f"`arl show {study.id}` shows how it goes"
        )


def is_driven(service: Service, study: Study) -> bool:
    """Whether a worker that may be alive holds the study's lease."""
    if study.lease_owner is None or is_owner_gone(study.lease_owner, service.settings.host):
        return False
    with service.ledger.read() as session:
        return study.lease_expires_at is not None and study.lease_expires_at > session.now()


def drive(service: Service, study_ids: Sequence[str], *, as_json: bool, tell: bool) -> int:
    """Run the studies to their ends, report, and return the exit code.

    Args:
        tell: whether to say what was found when the studies were claimed.
    """
    listen_to_the_worker()
    interrupted, recoveries = follow(service, study_ids, as_json=as_json, tell=tell)
    with service.ledger.read() as session:
        studies = [reads.get_study(session, study_id) for study_id in study_ids]
    report = _json_report if as_json else _text_report
    report(service, studies, recoveries)
    if interrupted:
        if not as_json:
            _say_how_to_resume(service, studies)
        return INTERRUPTED
    return OK if all(s.state is StudyState.COMPLETED for s in studies) else STUDY_FAILED


def follow(
    service: Service, study_ids: Sequence[str], *, as_json: bool, tell: bool
) -> tuple[bool, list[Recovery]]:
    """Run the studies to their ends, shown live unless JSON follows; whether a signal came before
    they were there, and what was found when they were claimed."""
    watches: dict[str, Watch] = {}
    recoveries: list[Recovery] = []

    def on_recovery(found: Recovery) -> None:
        recoveries.append(found)
        watches[found.study_id] = _watch(service, found.study_id)
        if tell and not as_json:
            for line in recovered_lines(found):
                print(line, flush=True)

    with _display(watches, as_json=as_json) as on_tick:
        worker = Worker(service, Callbacks(on_recovery=on_recovery, on_tick=on_tick))
        with Interrupt(worker).installed() as interrupt:
            worker.run(list(study_ids))
    remember_heads(service)
    sign_promoted(service, study_ids)
    return bool(interrupt.number), recoveries


def sign_promoted(service: Service, study_ids: Sequence[str]) -> None:
    """Sign what these studies promoted, unless the operator does not want that."""
    if service.settings.sign_promotions:
        sign_unsigned(service.ledger, service.store, service.settings.home, study_ids)


@contextmanager
def _display(
    watches: dict[str, Watch], *, as_json: bool
) -> Iterator[Callable[[StudyDriver], None]]:
    """The live panel on a terminal, a line per event elsewhere, nothing where JSON follows."""
    if as_json:
        yield lambda _: None
    elif sys.stdout.isatty():
        from controller.cli.live import LivePanel

        with LivePanel(console(), watches) as panel:
            yield panel.on_tick
    else:
        from controller.cli.event_log import EventLog

        yield EventLog(watches).on_tick


def _watch(service: Service, study_id: str) -> Watch:
    """A watch that knows since when the attempts run that are running already."""
    with service.ledger.read() as session:
        found = reads.open_attempts(session, study_id)
    return Watch(started={a.id: a.started_at for a in found if a.started_at is not None})


# --- what is said ------------------------------------------------------------------------------


def recovered_lines(found: Recovery) -> list[str]:
    """What a claim found, for a person."""
    said = (
        (found.adopted, "still running: adopted"),
        (found.ended, "ended meanwhile: collecting what they left"),
        (found.relaunched, "never started: launching now"),
        (found.lost, "lost with their processes: tried again as the study's retries allow"),
        (found.elsewhere, "on another host, out of reach from here: left alone"),
    )
    lines = [
        f"resuming {plain(found.name)} ({found.study_id}), {found.state}: "
        f"{found.trials_done} trials done, {found.trials_live} under way"
    ]
    if found.interrupted:
        lines.append("  its last worker was gone without giving it back")
    lines += [f"  {several(count, 'attempt')} {what}" for count, what in said if count]
    if found.reaped:
        lines.append(f"  {several(found.reaped, 'process', 'processes')} nobody owned: ended")
    return lines


def _json_report(
    service: Service, studies: Sequence[Study], recoveries: Sequence[Recovery]
) -> None:
    """One study is its own document; several are listed."""
    found = {recovery.study_id: recovery for recovery in reversed(recoveries)}
    documents: list[dict[str, Json]] = []
    with service.ledger.read() as session:
        for study in studies:
            document = study_document(session, study)
            recovery = found.get(study.id)
            document["recovered"] = None if recovery is None else recovered_document(recovery)
            documents.append(document)
    print_json(documents[0] if len(documents) == 1 else {"studies": documents})


def recovered_document(found: Recovery) -> dict[str, Json]:
    return {
        "interrupted": found.interrupted,
        "adopted": found.adopted,
        "ended": found.ended,
        "relaunched": found.relaunched,
        "lost": found.lost,
        "elsewhere": found.elsewhere,
        "reaped": found.reaped,
    }


def _text_report(
    service: Service, studies: Sequence[Study], recoveries: Sequence[Recovery]
) -> None:
    """A last line or two for every study that has ended."""
    with service.ledger.read() as session:
        for study in studies:
            if study.state in STUDY_TERMINAL:
                for line in ending_lines(study_document(session, study)):
                    print(line)


def _say_how_to_resume(service: Service, studies: Sequence[Study]) -> None:
    """After Ctrl-C: what goes on by itself, and the command that follows it again."""
    for study in studies:
        if study.state in STUDY_TERMINAL:
            continue
        with service.ledger.read() as session:
            running = len(reads.open_attempts(session, study.id))
        goes_on = (
            f"{several(running, 'attempt')} of it {'goes' if running == 1 else 'go'} on running"
            if running
            else "nothing of it is running"
        )
        print(f"\ninterrupted: study {plain(study.name)} is {study.state}; {goes_on}.")
        print(f"  arl resume {study.id}     goes on from here; nothing is lost or run twice")
        print(f"  arl cancel {study.id}     ends it and what is running")
