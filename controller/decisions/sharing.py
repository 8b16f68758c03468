"""Whose turn it is on a machine that several studies want: priority, then use by weight.

Among studies of one priority this is weighted fair queueing in the manner of stride scheduling
(Waldspurger and Weihl 1995), where a study's cost is its dominant share of the machine (Ghodsi
and others 2011, dominant resource fairness) times the seconds it holds it.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from controller.decisions.slots import Grant, Request, ResourcePool, fits, never_fits

AGEING_S: Final = 300.0
"""A study that has waited so long counts as one priority higher, after twice that as two."""
IDLE_S: Final = 60.0
"""One that wanted nothing for so long comes back without credit for that time."""
EXPECTED_S: Final = 1.0
"""How long a trial is taken to hold what it holds, of a study that has ended none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A study that wants the machine, or holds some of it."""

    study_id: str
    weight: float = 1.0
    priority: int = 0
    spent: float = 0.0
    """Seconds of the whole machine that it has had so far."""
    expected: float = 0.0
    """What its trials under way are still expected to come to."""
    waiting_s: float | None = None
    """Since its last turn; None: it wants nothing just now."""
    request: Request

    @property
    def used(self) -> float:
        """What its turn goes by: one study is not given everything before the first second of
        its trials has passed."""
        return self.spent + self.expected


def share_of(machine: ResourcePool, request: Request) -> float:
    """The largest part of the machine that the request takes, in any of its resources."""
    return max(
        request.cpus / machine.cpus if machine.cpus else 0.0,
        request.memory_bytes / machine.memory_bytes if machine.memory_bytes else 0.0,
        request.gpus / len(machine.gpu_ids) if machine.gpu_ids else 0.0,
    )


def held_seconds(share: float, elapsed_s: float, expected_s: float) -> tuple[float, float]:
    """What a trial under way has had, and what it is still expected to have."""
    return share * elapsed_s, share * max(0.0, expected_s - elapsed_s)


def joining_spent(others: Iterable[Claimant], weight: float, spent: float) -> float:
    """What a study starts with that was not there for a while: no less, by weight, than the
    study that had least, or it would have the machine alone until it had as much."""
    least = min((one.spent / one.weight for one in others), default=0.0)
    return max(spent, least * weight)


def effective_priority(claimant: Claimant) -> int:
    """With what waiting adds: nothing waits for ever behind those that come first."""
    return claimant.priority + math.floor((claimant.waiting_s or 0.0) / AGEING_S)


def turns(claimants: Iterable[Claimant]) -> list[Claimant]:
    """Those that wait, the next one first: by priority, then by use for its weight, then by how
    long they wait."""
    waiting = [one for one in claimants if one.waiting_s is not None]
    return sorted(
        waiting,
        key=lambda one: (
            -effective_priority(one),
            one.used / one.weight,
            -(one.waiting_s or 0.0),
            one.study_id,
        ),
    )


def room_for(
    study_id: str,
    claimants: Sequence[Claimant],
    pool: ResourcePool,
    request: Request,
    unclean: Collection[str] = (),
) -> Grant | None:
    """What the study gets for one more trial, or None while it has to wait. What those before it
    wait for is set aside for them: a small trial may pass a large one where it takes nothing that
    the large one needs, and never else, or the large one would wait for ever."""
    for one in turns(claimants):
        if one.study_id == study_id:
            break
        if never_fits(pool, one.request) is None:
            pool = _set_aside(pool, one, unclean)
    return fits(pool, request, unclean)


def _set_aside(pool: ResourcePool, one: Claimant, unclean: Collection[str]) -> ResourcePool:
    """The pool less what the study waits for, as far as it is free: GPUs that it could have now
    before those that are not free yet."""
    held = pool.grants.values()
    taken = {gpu for grant in held for gpu in grant.gpu_ids}
    free = sorted(
        (gpu for gpu in pool.gpu_ids if gpu not in taken), key=lambda gpu: gpu in unclean
    )
    cpus = pool.cpus - math.fsum(grant.cpus for grant in held)
    memory_bytes = pool.memory_bytes - sum(grant.memory_bytes for grant in held)
    kept = Grant(
        cpus=max(0.0, min(one.request.cpus, cpus)),
        memory_bytes=max(0, min(one.request.memory_bytes, memory_bytes)),
        gpu_ids=tuple(free[: one.request.gpus]),
    )
    return pool.with_grant(f"waits:{one.study_id}", kept)
