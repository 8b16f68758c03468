"""What a worker finds when it claims a study: adopts what runs, reaps what nobody owns."""

from dataclasses import dataclass

from controller.wiring import Service
from controller.worker.driver import StudyDriver
from ledger import reads
from ledger.states import AttemptState


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What was found at a claim, for a person to read."""

    study_id: str
    name: str
    state: str
    interrupted: bool
    """Whether another worker held the study before and did not give it back."""
    trials_done: int
    trials_live: int
    adopted: int
    """Attempts still running that this worker follows now."""
    ended: int
    """Attempts that ended while nobody watched; their outcome is collected."""
    relaunched: int
    """Intents that never started, or that nobody knows of; started now."""
    lost: int
    """Attempts that had started and that nobody knows of any more; tried again by the rules."""
    elsewhere: int
    """Attempts on another host, out of reach from here."""
    reaped: int
    """Processes of this study that no live attempt owns; ended and deleted."""


def recover(driver: StudyDriver, service: Service, *, was_held: str | None) -> Recovery:
    """Match the ledger's live attempts with what the target has, and reap the rest."""
    view = driver.view
    prefix = f"arl-{view.study.id}"
    owned = [
        (target, attempt)
        for target in driver.targets
        for attempt in target.list_owned(service.ledger.id)
        if attempt.name.startswith((f"{prefix}-", f"{prefix}."))
    ]
    found = {attempt.name: attempt for _, attempt in owned}
    live = {a.name: a for a in view.attempts()}
    orphans = [(target, f) for target, f in owned if f.name not in live]
    for target, orphan in orphans:
        target.kill(orphan.handle)
        service.cleaner.release(target, orphan.handle)
    here = [a for a in live.values() if driver.snapshot().is_here(a)]
    running = [a for a in here if a.name in found and found[a.name].running]
    ended = [a for a in here if a.name in found and not found[a.name].running]
    return Recovery(
        study_id=view.study.id,
        name=view.study.name,
        state=str(view.study.state),
        interrupted=was_held is not None,
        trials_done=view.finish_seq,
        trials_live=len(view.live),
        adopted=len(running),
        ended=len(ended),
        relaunched=sum(
            1 for a in here if a.name not in found and a.state is AttemptState.LAUNCHING
        ),
        lost=sum(1 for a in here if a.name not in found and a.state is not AttemptState.LAUNCHING),
        elsewhere=len(live) - len(here),
        reaped=len(orphans),
    )


def reap_ended(service: Service) -> int:
    """End and delete what runs for studies that have ended; returns how many there were.

    A worker killed between recording a cancellation and carrying it out leaves such attempts.
    """
    found = [
        (target, attempt)
        for target in service.used_targets()
        for attempt in target.list_owned(service.ledger.id)
    ]
    if not found:
        return 0
    with service.ledger.read() as session:
        ended = reads.ended_study_ids(session)
    orphans = [(target, f) for target, f in found if study_of(f.name) in ended]
    for target, orphan in orphans:
        target.kill(orphan.handle)
        service.cleaner.release(target, orphan.handle)
    return len(orphans)


def study_of(attempt_name: str) -> str:
    """The study id inside an attempt's name."""
    return attempt_name.removeprefix("arl-").partition(".")[0].partition("-")[0]
