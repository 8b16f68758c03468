"""How many proposals to ask for, and whether the machine has room for one more trial."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ledger.records import BudgetLine

_CPU_TOLERANCE: Final = 1e-9
"""Ten times 0.1 of a processor are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one trial wants while it runs."""

    cpus: float = 1.0
    memory_bytes: int = 0
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one trial holds until it ends."""

    cpus: float
    memory_bytes: int
    gpu_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePool:
    """A machine, and who holds what of it, by trial id."""

    cpus: float
    memory_bytes: int
    gpu_ids: tuple[str, ...] = ()
    grants: Mapping[str, Grant] = field(default_factory=dict)

    def holds(self, trial_id: str) -> bool:
        return trial_id in self.grants

    def with_grant(self, trial_id: str, grant: Grant) -> "ResourcePool":
        return replace(self, grants={**self.grants, trial_id: grant})

    def without(self, trial_id: str) -> "ResourcePool":
        """Giving back what is not held changes nothing."""
        return replace(self, grants={k: v for k, v in self.grants.items() if k != trial_id})


def fits(pool: ResourcePool, request: Request, unclean: Collection[str] = ()) -> Grant | None:
    """What `request` gets of what is left, or None while there is too little. `unclean` are GPUs
    that nobody holds and that are not free yet.

    GPUs are given whole and lowest in the pool's order, so equal pools give equal ids.
    """
    held = pool.grants.values()
    cpus = math.fsum(grant.cpus for grant in held) + request.cpus
    memory_bytes = sum(grant.memory_bytes for grant in held) + request.memory_bytes
    taken = {gpu for grant in held for gpu in grant.gpu_ids}
    free = tuple(gpu for gpu in pool.gpu_ids if gpu not in taken and gpu not in unclean)
    if (
        cpus > pool.cpus + _CPU_TOLERANCE
        or memory_bytes > pool.memory_bytes
        or request.gpus > len(free)
    ):
        return None
    return Grant(
        cpus=request.cpus,
        memory_bytes=request.memory_bytes,
        gpu_ids=free[: request.gpus],
    )


def never_fits(pool: ResourcePool, request: Request) -> str | None:
    """Why `request` is more than the whole machine has; None when it fits an empty one."""
    if request.cpus > pool.cpus + _CPU_TOLERANCE:
        return (
            f"resources.cpus: {request.cpus:g}: this machine gives {pool.cpus:g}; "
            "write that or less"
        )
    if request.memory_bytes > pool.memory_bytes:
        return (
            f"resources.memory: {request.memory_bytes} bytes: this machine gives "
            f"{pool.memory_bytes}; write that or less"
        )
    if request.gpus > len(pool.gpu_ids):
        return (
            f"resources.gpus: {request.gpus}: this machine gives {len(pool.gpu_ids)}; "
            "write that or less"
        )
    return None


def free_slots(parallel: int, live: int, trials: BudgetLine | None = None) -> int:
    """How many proposals to ask for now: what `parallel` leaves beside the `live` search trials
    (waiting ones included), and never more than the budget has trials left. That makes the cap
    exact: each proposal is reserved in the transaction that writes it down."""
    slots = max(0, parallel - live)
    if trials is None or trials.limit is None:
        return slots
    left = math.floor(trials.limit - trials.spent - trials.reserved)
    return max(0, min(slots, left))
