"""Whether a converted model may be served: no worse than the unconverted one by the margin."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from evaluator.objective import as_maximized
from evaluator.paired import NonInferiority, items_needed, non_inferiority
from evaluator.statistics import mean, tie_tolerance
from ledger.records import Direction, Json
from ledger.states import ConversionState, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredModel:
    """One model on the whole holdout: its halves one after the other, in the metric's own unit."""

    value: float
    """The objective over both halves, weighted by their items."""
    items: Sequence[float]
    """Item scores; empty where the evaluator gives none."""
    guards: Mapping[str, float] = field(default_factory=dict)
    """Guard metrics over both halves, larger being better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedPair:
    """A model of one seed, before and after."""

    unconverted: ScoredModel
    converted: ScoredModel


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionVerdict:
    state: ConversionState
    """SERVABLE or REFUSED."""
    reason: Reason
    detail: str
    evidence: Mapping[str, Json]
    """In the metric's own unit; differences are positive when better."""


def decide_conversion(
    pairs: Sequence[ConvertedPair],
    *,
    direction: Direction,
    margin: float,
    alpha: float,
    guards: Mapping[str, float],
) -> ConversionVerdict:
    """Servable when the items' paired test passes, the objective itself is no worse by more than
    the margin, and no guard metric dropped by more than `guards` allows. Fails closed."""
    evidence = _figures(pairs, direction) | {"margin": margin, "alpha": alpha}
    tested = _tested(pairs, direction, margin, alpha)
    if isinstance(tested, str):
        return _refused(Reason.NO_ITEMS, tested, evidence)
    evidence |= asdict(tested)
    if tested.p > alpha:
        return _refused(Reason.INFERIOR, _not_shown(tested, margin, alpha), evidence)
    change = _change(pairs, direction)
    if change < -margin - tie_tolerance([pair.unconverted.value for pair in pairs]):
        detail = f"the objective itself is worse by {-change:.4g}, more than {margin:g}"
        return _refused(Reason.INFERIOR, detail, evidence)
    if dropped := _dropped(pairs, guards):
        return _refused(Reason.GUARD_REGRESSED, dropped, evidence)
    return ConversionVerdict(
        state=ConversionState.SERVABLE,
        reason=Reason.NOT_INFERIOR,
        detail=f"no worse by {margin:g} on {tested.items} items (p {tested.p:.3g})",
        evidence=evidence,
    )


def _tested(
    pairs: Sequence[ConvertedPair], direction: Direction, margin: float, alpha: float
) -> NonInferiority | str:
    """The paired test's result, or why there is none."""
    if any(not pair.converted.items or not pair.unconverted.items for pair in pairs):
        return (
            "the evaluator gives no per-item scores, so nothing can be compared item by item;"
            " let it write items"
        )
    try:
        return non_inferiority(
            [[as_maximized(v, direction) for v in pair.converted.items] for pair in pairs],
            [[as_maximized(v, direction) for v in pair.unconverted.items] for pair in pairs],
            margin=margin,
            alpha=alpha,
        )
    except ValueError as error:
        return f"the items cannot be compared: {error}"


def _not_shown(tested: NonInferiority, margin: float, alpha: float) -> str:
    detail = (
        f"that it is no worse by {margin:g} is not shown: over the items it changed by"
        f" {tested.difference:+.4g}, at worst {tested.lower:+.4g} (p {tested.p:.3g})"
    )
    needed = items_needed(margin, alpha)
    if tested.test == "tango" and tested.items < needed:
        detail += f"; {tested.items} items can never show it, it takes {needed} at the least"
    return detail


def _change(pairs: Sequence[ConvertedPair], direction: Direction) -> float:
    """Of the objective, positive when better."""
    new = mean([as_maximized(pair.converted.value, direction) for pair in pairs])
    return new - mean([as_maximized(pair.unconverted.value, direction) for pair in pairs])


def _figures(pairs: Sequence[ConvertedPair], direction: Direction) -> dict[str, Json]:
    sides = [side.guards.keys() for pair in pairs for side in (pair.converted, pair.unconverted)]
    names = sorted(set(sides[0]).intersection(*sides[1:]))
    return {
        "seeds": len(pairs),
        "objective": {
            "unconverted": mean([pair.unconverted.value for pair in pairs]),
            "converted": mean([pair.converted.value for pair in pairs]),
            "change": _change(pairs, direction),
        },
        "guards": {name: -_drop(pairs, name) for name in names},
    }


def _drop(pairs: Sequence[ConvertedPair], name: str) -> float:
    old = mean([pair.unconverted.guards.get(name, math.inf) for pair in pairs])
    return old - mean([pair.converted.guards.get(name, -math.inf) for pair in pairs])


def _dropped(pairs: Sequence[ConvertedPair], guards: Mapping[str, float]) -> str:
    """Which guard metric fell too far; nothing when none did."""
    for name, most in guards.items():
        drop = _drop(pairs, name)
        values = [pair.unconverted.guards.get(name, 0.0) for pair in pairs]
        if not drop <= most + tie_tolerance(values):
            return f"the guard metric {name} dropped by {drop:.4g}, more than {most:g}"
    return ""


def _refused(reason: Reason, detail: str, evidence: Mapping[str, Json]) -> ConversionVerdict:
    return ConversionVerdict(
        state=ConversionState.REFUSED, reason=reason, detail=detail, evidence=evidence
    )
