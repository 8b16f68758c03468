"""Who enters a replay family, and the last checks before a candidate becomes the incumbent."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.decisions.families import Member
from evaluator.objective import as_maximized
from evaluator.statistics import mean
from ledger.records import Direction
from ledger.states import FamilyState, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """A search trial's score on the search split, in the order of proposing."""

    candidate: str
    value: float | None
    """None when it was never evaluated (failed, pruned): such a candidate cannot be chosen."""


def choose_family(
    screened: Sequence[Screened],
    *,
    incumbent: str,
    baseline: Sequence[float],
    direction: Direction,
    m: int,
) -> tuple[Member, ...]:
    """The family's members: the `m` best screened candidates better than the baseline's mean.

    What screening kept is not asked: the first candidate that beat the leader is not more
    promising than a later, better one that did not beat it by the margin. A candidate measured
    several times counts with its mean. Equal scores go in the order of proposing.
    """
    found: dict[str, list[float]] = {}
    for trial in screened:
        if trial.value is not None and math.isfinite(trial.value):
            if trial.candidate != incumbent:
                found.setdefault(trial.candidate, []).append(trial.value)
    if not baseline:
        return ()
    bar = as_maximized(mean(baseline), direction)
    scored = [(as_maximized(mean(values), direction), c) for c, values in found.items()]
    ranked = sorted((pair for pair in scored if pair[0] > bar), key=lambda p: p[0], reverse=True)
    return tuple(
        Member(candidate=candidate, screening=as_maximized(value, direction))
        for value, candidate in ranked[:m]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionFacts:
    """What is true at the moment of promoting, read under the study's fence."""

    family_state: FamilyState
    approval_required: bool
    approved: bool
    reported: bool
    """Whether the objective is self-reported (`evaluator.mode: reported`)."""
    allow_reported: bool
    family_incumbent: str
    """Candidate id the family was opened against."""
    current_incumbent: str
    family_bundle: str
    current_bundle: str
    """Bundle digest as recomputed now; empty when its bytes no longer match."""
    comparison: str
    incumbent_comparison: str | None
    """Of the model's incumbent; None when the family's incumbent is the study's baseline."""
    artifact_verified: bool
    """The winner's stored artifact was hashed again and matches its digest."""
    missing_links: tuple[str, ...] = ()
    """What its lineage lacks, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionDecision:
    allowed: bool
    awaits_approval: bool = False
    """Everything else holds; an operator has to approve."""
    reason: Reason = Reason.PROMOTED
    detail: str = ""


def decide_promotion(facts: PromotionFacts) -> PromotionDecision:
    """Whether the passed family's winner may become the incumbent now. Fails closed."""
    for reason, (holds, detail) in _checks(facts).items():
        if not holds:
            return PromotionDecision(allowed=False, reason=reason, detail=detail)
    if facts.approval_required and not facts.approved:
        return PromotionDecision(
            allowed=False, awaits_approval=True, reason=Reason.PASSED, detail="awaits approval"
        )
    return PromotionDecision(allowed=True)


def _checks(facts: PromotionFacts) -> Mapping[Reason, tuple[bool, str]]:
    ready = (FamilyState.PASSED, FamilyState.AWAITING_APPROVAL)
    same_family = facts.incumbent_comparison in (None, facts.comparison)
    return {
        Reason.NOT_CONFIRMED: (
            facts.family_state in ready,
            f"the family is {facts.family_state}; only a passed family can promote",
        ),
        Reason.NO_METRIC: (
            not facts.reported or facts.allow_reported,
            "the objective is self-reported; write promotion.allow_reported: true to trust it",
        ),
        Reason.INCUMBENT_MOVED: (
            facts.family_incumbent == facts.current_incumbent and same_family,
            f"the family replayed against {facts.family_incumbent}, but the incumbent is now"
            f" {facts.current_incumbent}; open a new family against it",
        ),
        Reason.BUNDLE_CHANGED: (
            bool(facts.current_bundle) and facts.family_bundle == facts.current_bundle
            if not facts.reported
            else facts.family_bundle == facts.current_bundle,
            "the evaluator bundle is not the one that scored the family",
        ),
        Reason.ARTIFACT_CORRUPT: (
            facts.artifact_verified,
            "the winner's stored artifact does not match its digest",
        ),
        Reason.LINEAGE_INCOMPLETE: (
            not facts.missing_links,
            f"its lineage lacks {', '.join(facts.missing_links)}; run the study again with the"
            " programs of this version, which record it",
        ),
    }
