"""What a worker finds when it claims a study: adopts what runs, reaps what nobody owns."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from controller.wiring import Service
from controller.worker.driver import StudyDriver
from ledger import reads
from ledger.errors import DiskFull, TargetUnavailable
from ledger.states import AttemptState
from targets.protocol import Found, Target

log = logging.getLogger("arl.worker")


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
    """Attempts out of reach from here: on another host, or on a target that is away."""
    reaped: int
    """Processes of this study that no live attempt owns; ended and deleted."""


def recover(driver: StudyDriver, service: Service, *, was_held: str | None) -> Recovery:
    """Match the ledger's live attempts with what the target has, and reap the rest."""
    view = driver.view
    prefix = f"arl-{view.study.id}"
    listed, away = _listed(driver.targets, service.ledger.id)
    owned = [
        (target, attempt)
        for target, attempt in listed
        if attempt.name.startswith((f"{prefix}-", f"{prefix}."))
    ]
    found = {attempt.name: attempt for _, attempt in owned}
    live = {a.name: a for a in view.attempts()}
    orphans = [(target, f) for target, f in owned if f.name not in live]
    for target, orphan in orphans:
        _reap(service, target, orphan)
    context = driver.snapshot()
    here = [a for a in live.values() if context.is_here(a) and context.target_of(a) not in away]
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
    found, _ = _listed(service.used_targets(), service.ledger.id)
    if not found:
        return 0
    with service.ledger.read() as session:
        ended = reads.ended_study_ids(session)
    orphans = [(target, f) for target, f in found if study_of(f.name) in ended]
    for target, orphan in orphans:
        _reap(service, target, orphan)
    return len(orphans)


def list_running(service: Service) -> set[str] | None:
    """The trials of which something runs on this machine; None while a target is away."""
    found, away = _listed(service.used_targets(), service.ledger.id)
    if away:
        return None
    return {trial_of(one.name) for _, one in found if one.running}


def _reap(service: Service, target: Target, orphan: Found) -> None:
    """End and delete it; where its target is away just now, whoever claims next does."""
    try:
        target.kill(orphan.handle)
    except (TargetUnavailable, DiskFull) as error:
        log.warning("attempt %s is ended later: %s", orphan.name, error)
        return
    service.cleaner.release(target, orphan.handle)


def _listed(
    targets: Sequence[Target], owner: str
) -> tuple[list[tuple[Target, Found]], list[Target]]:
    """What the targets have of `owner`, and those that are away: a worker starts without them,
    and the studies that need them wait for them."""
    found: list[tuple[Target, Found]] = []
    away: list[Target] = []
    for target in targets:
        try:
            found += [(target, attempt) for attempt in target.list_owned(owner)]
        except (TargetUnavailable, DiskFull) as error:
            log.warning("what is left on target %s is looked for later: %s", target.name, error)
            away.append(target)
    return found, away


def study_of(attempt_name: str) -> str:
    """The study id inside an attempt's name."""
    return attempt_name.removeprefix("arl-").partition(".")[0].partition("-")[0]


def trial_of(attempt_name: str) -> str:
    """The trial id inside an attempt's name."""
    return attempt_name.removeprefix("arl-").partition(".")[0]
