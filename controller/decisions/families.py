"""The nouns of a replay family: what the gate is given, what it asks for, how it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from controller.decisions.profiles import GateProfile
from ledger.records import Direction, Json, Split
from ledger.states import FamilyState, Reason


class Stage(StrEnum):
    """What a replay is for; stored as `Trial.stage`."""

    POOL = "pool"
    """An incumbent's run that the pool lacked when the family opened."""
    STAGE_1 = "stage1"
    STAGE_2 = "stage2"
    CONFIRM = "confirm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A candidate of the family with its screening score, on the search split."""

    candidate: str
    screening: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A metric that must not get worse by more than `max_drop`; larger is better."""

    metric: str
    max_drop: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldoutRun:
    """A pool run's objective on both halves, and its guard metrics weighted over both."""

    a: float
    b: float
    guards: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRun:
    """A finished replay: scored on the splits it was asked for, or failed by its own fault.

    A replay that infrastructure or the evaluator lost is not finished: leave it out.
    """

    candidate: str
    stage: Stage
    index: int
    a: float | None = None
    b: float | None = None
    guards: Mapping[str, float] = field(default_factory=dict)
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One replay to make, unless it is in flight already."""

    candidate: str
    stage: Stage
    index: int
    """Unique in the family; the seed is `derive_seed(secret, family id, index)`."""
    splits: tuple[Split, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedRuns:
    requests: tuple[RunRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """How the family ends. `state` is PASSED, REFUSED or INCONCLUSIVE."""

    state: FamilyState
    reason: Reason
    best: str | None
    """The candidate the verdict is about; None when none was chosen."""
    evidence: Mapping[str, Json]
    """Everything computed so far, ready for canonical JSON, in the metric's own unit; gains and
    differences are positive when better."""


GateStep: TypeAlias = NeedRuns | GateVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a family was opened with."""

    profile: GateProfile
    direction: Direction
    members: Sequence[Member]
    incumbent: str
    pool: Sequence[HoldoutRun]
    """Unselected runs of the incumbent; those that won it its own promotion are not among
    them."""
    items_a: int = 1
    items_b: int = 1
    """How many items each half has: the weights of a mean over both."""
    guards: Sequence[Guard] = ()
