"""The gate of a converted model: servable, refused and why, with every number kept."""

from collections.abc import Mapping, Sequence

import pytest

from controller.decisions.conversions import (
    ConversionVerdict,
    ConvertedPair,
    ScoredModel,
    decide_conversion,
)
from ledger.digests import canonical_json
from ledger.records import Direction
from ledger.states import ConversionState, Reason

RIGHT = [1.0, 1.0, 1.0, 0.0] * 50


def scored(
    items: Sequence[float] = RIGHT, value: float | None = None, **guards: float
) -> ScoredModel:
    mean = sum(items) / len(items) if items else 0.5
    return ScoredModel(value=mean if value is None else value, items=items, guards=guards)


def decide(
    *pairs: ConvertedPair,
    direction: Direction = Direction.MAXIMIZE,
    margin: float = 0.05,
    guards: Mapping[str, float] | None = None,
) -> ConversionVerdict:
    found = decide_conversion(
        pairs, direction=direction, margin=margin, alpha=0.05, guards=guards or {}
    )
    canonical_json(dict(found.evidence))  # the ledger takes finite numbers only
    return found


def pair(converted: ScoredModel, unconverted: ScoredModel | None = None) -> ConvertedPair:
    return ConvertedPair(unconverted=unconverted or scored(), converted=converted)


def test_the_same_answers_may_be_served() -> None:
    found = decide(pair(scored()))
    assert (found.state, found.reason) == (ConversionState.SERVABLE, Reason.NOT_INFERIOR)
    assert found.evidence["difference"] == 0.0
    assert found.evidence["objective"] == {"unconverted": 0.75, "converted": 0.75, "change": 0.0}
    assert "no worse by 0.05 on 200 items" in found.detail


def test_worse_answers_are_refused_and_their_numbers_kept() -> None:
    found = decide(pair(scored([0.0] * 20 + RIGHT[20:])))
    assert (found.state, found.reason) == (ConversionState.REFUSED, Reason.INFERIOR)
    assert found.evidence["lost"] == 15
    assert found.evidence["difference"] == pytest.approx(-0.075)


def test_too_few_items_say_how_many_it_takes() -> None:
    found = decide(pair(scored(RIGHT[:40]), scored(RIGHT[:40])), margin=0.02)
    assert found.reason is Reason.INFERIOR
    assert "40 items can never show it, it takes 133 at the least" in found.detail


def test_an_evaluator_without_items_refuses_and_says_what_to_do() -> None:
    found = decide(pair(scored([], 0.7), scored([], 0.7)))
    assert (found.state, found.reason) == (ConversionState.REFUSED, Reason.NO_ITEMS)
    assert "let it write items" in found.detail
    other = decide(pair(scored(RIGHT[:40])))
    assert other.reason is Reason.NO_ITEMS


def test_smaller_is_better_where_the_objective_says_so() -> None:
    losses = [1.0 + i % 7 / 10 for i in range(200)]
    better, worse = [v - 0.01 for v in losses], [v + 0.3 for v in losses]
    minimize = Direction.MINIMIZE
    good = decide(pair(scored(better), scored(losses)), direction=minimize)
    assert good.state is ConversionState.SERVABLE
    assert good.evidence["difference"] == pytest.approx(0.01)
    bad = decide(pair(scored(worse), scored(losses)), direction=minimize)
    assert bad.reason is Reason.INFERIOR


def test_items_that_hide_a_worse_objective_do_not_pass() -> None:
    found = decide(pair(scored(RIGHT, value=0.5), scored(RIGHT, value=0.75)))
    assert (found.state, found.reason) == (ConversionState.REFUSED, Reason.INFERIOR)
    assert "the objective itself is worse by 0.25" in found.detail


def test_a_guard_metric_that_fell_too_far_refuses() -> None:
    before, after = scored(RIGHT, format_ok=0.99), scored(RIGHT, format_ok=0.9)
    found = decide(pair(after, before), guards={"format_ok": 0.02})
    assert (found.state, found.reason) == (ConversionState.REFUSED, Reason.GUARD_REGRESSED)
    assert found.evidence["guards"] == {"format_ok": pytest.approx(-0.09)}
    assert decide(pair(after, before), guards={"format_ok": 0.1}).state is ConversionState.SERVABLE


def test_a_guard_metric_that_is_missing_refuses() -> None:
    found = decide(pair(scored(RIGHT)), guards={"format_ok": 0.5})
    assert found.reason is Reason.GUARD_REGRESSED


def test_several_seeds_are_judged_together() -> None:
    one = pair(scored([0.0] * 8 + RIGHT[8:]))
    found = decide(one, pair(scored()), pair(scored()))
    assert found.evidence["seeds"] == 3
    assert found.evidence["items"] == 200
    assert found.state is ConversionState.SERVABLE
