"""Which saved checkpoints a study's retention lets go of, and why."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from controller.spec.retention import Keep, Policy
from evaluator.objective import is_better
from ledger.records import ArtifactRole, Direction, TrialKind
from ledger.retention_entries import ReleaseReason
from ledger.states import Reason, TrialState


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the trial came out that saved something."""

    number: int
    kind: TrialKind
    candidate_id: str
    state: TrialState
    reason: Reason
    value: float | None
    """Of the objective; None without one."""
    finish_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A checkpoint, or a resume state, that is kept so far."""

    attempt_id: str
    trial_id: str
    role: ArtifactRole
    digest: str
    size_bytes: int
    ended: Ended | None
    """None while its trial is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What stays whatever the policy says."""

    candidates: Collection[str] = frozenset()
    """The leader, what is being replayed, converted or approved, what was promoted: everything
    that trials of theirs saved."""
    digests: Collection[str] = frozenset()
    """Trees that something else names: a conversion, a lineage, evidence, another study."""


@dataclass(frozen=True, slots=True)
class LetGo:
    saved: Saved
    reason: ReleaseReason


def concerns(policy: Policy, role: ArtifactRole) -> bool:
    """Whether what is saved in a role may ever go by the policy: what never does, nobody has to
    look through after each trial of a long study."""
    return role is ArtifactRole.RESUME or (
        role is ArtifactRole.MODEL and policy.keep is not Keep.ALL
    )


def decide_retention(
    policy: Policy, saved: Collection[Saved], needed: Needed, direction: Direction
) -> list[LetGo]:
    """What may go, by trial. A checkpoint goes by the policy, a resume state with the end of its
    trial; nothing of a trial under way goes, nor what is needed. The first baseline's stays: it
    is what the study began from."""
    first = _first_baseline(saved)
    staying = _staying(policy, saved, direction)
    found = []
    for one in _ended_in_order(saved):
        if one.digest in needed.digests or _of(one).candidate_id in needed.candidates:
            continue
        if one.role is ArtifactRole.RESUME:
            found.append(LetGo(one, ReleaseReason.TRIAL_OVER))
        elif concerns(policy, one.role):
            if one.trial_id != first and one.trial_id not in staying:
                found.append(LetGo(one, _why(policy, one)))
    return found


def _of(one: Saved) -> Ended:
    if one.ended is None:
        raise ValueError(f"{one.trial_id} has not ended")
    return one.ended


def _ended_in_order(saved: Collection[Saved]) -> list[Saved]:
    return sorted((one for one in saved if one.ended is not None), key=lambda one: _of(one).number)


def _first_baseline(saved: Collection[Saved]) -> str | None:
    """The trial of the first baseline that was measured and whose checkpoint is kept."""
    return next(
        (
            one.trial_id
            for one in _ended_in_order(_models(saved))
            if _of(one).kind is TrialKind.BASELINE and _of(one).state is TrialState.COMPLETE
        ),
        None,
    )


def _models(saved: Collection[Saved]) -> list[Saved]:
    return [one for one in saved if one.role is ArtifactRole.MODEL]


def _staying(policy: Policy, saved: Collection[Saved], direction: Direction) -> frozenset[str]:
    """Trials whose checkpoints the policy keeps."""
    ended = [one for one in _ended_in_order(_models(saved)) if _is_search(one)]
    if policy.keep is Keep.LAST:
        last = max(ended, key=lambda one: _of(one).finish_seq, default=None)
        return frozenset() if last is None else frozenset({last.trial_id})
    if policy.keep is not Keep.BEST:
        return frozenset()
    ranked = sorted(_ranked(ended), key=lambda pair: _order(pair, direction))
    return frozenset(one.trial_id for one, _ in ranked[: policy.count])


def _is_search(one: Saved) -> bool:
    return _of(one).kind is TrialKind.SEARCH


def _ranked(ended: list[Saved]) -> Iterator[tuple[Saved, float]]:
    """Those with a value that counts: a candidate that broke a constraint is no best one."""
    for one in ended:
        found = _of(one)
        if (
            found.state is TrialState.COMPLETE
            and found.value is not None
            and found.reason is not Reason.INFEASIBLE
        ):
            yield one, found.value


def _order(pair: tuple[Saved, float], direction: Direction) -> tuple[float, int]:
    """The better first, of equals the one that finished first; NaN last."""
    one, value = pair
    if not is_better(value, float("nan"), direction):
        value = float("inf")
    elif direction is Direction.MAXIMIZE:
        value = -value
    return value, _of(one).finish_seq


def _why(policy: Policy, one: Saved) -> ReleaseReason:
    if policy.keep is Keep.NONE or not _is_search(one):
        return ReleaseReason.NOT_KEPT
    if policy.keep is Keep.LAST:
        return ReleaseReason.NOT_THE_LAST
    if not list(_ranked([one])):
        return ReleaseReason.WITHOUT_SCORE
    return ReleaseReason.NOT_AMONG_BEST
