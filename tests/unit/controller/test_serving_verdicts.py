"""A served model passes unless it may be worse, by the margin, than what it is compared to."""

import pytest

from controller.decisions.serving import compare, passes, reason_of
from controller.serving.gate import HOLDOUT, SEARCH, choose_splits, recorded_items
from ledger.errors import InvalidInput
from ledger.records import Direction, Evaluation, Split

RIGHT, WRONG = 1.0, 0.0


def evaluation(split: Split, items: tuple[float, ...]) -> Evaluation:
    return Evaluation(
        trial_id="t",
        attempt_id="a",
        split=split,
        bundle_digest="b",
        artifact_digest="d",
        value=0.5,
        scores={},
        items=items,
    )


def compared(new: list[float], old: list[float], margin: float = 0.02) -> bool:
    made = compare("incumbent", new, old, direction=Direction.MAXIMIZE, margin=margin)
    return made.holds


def test_the_same_answers_hold_once_there_are_enough_items() -> None:
    assert compared([RIGHT, WRONG] * 100, [RIGHT, WRONG] * 100)
    assert not compared([RIGHT, WRONG] * 20, [RIGHT, WRONG] * 20)
    assert compared([RIGHT, WRONG] * 20, [RIGHT, WRONG] * 20, margin=0.1)


def test_a_loss_beyond_the_margin_does_not_hold() -> None:
    assert not compared([WRONG] * 20 + [RIGHT] * 180, [RIGHT] * 200)
    assert compared([WRONG] * 2 + [RIGHT] * 398, [RIGHT] * 400)
    assert compared([RIGHT] * 200, [WRONG] * 100 + [RIGHT] * 100)


def test_smaller_is_better_where_the_study_says_so() -> None:
    def holds(new: list[float], old: list[float]) -> bool:
        made = compare("recorded", new, old, direction=Direction.MINIMIZE, margin=0.1)
        return made.holds

    assert holds([1.0, 2.0] * 50, [2.0, 3.0] * 50)
    assert not holds([2.0, 3.0] * 50, [1.0, 2.0] * 50)


def test_every_comparison_must_hold_and_there_must_be_one() -> None:
    good = compare(
        "incumbent", [1.0] * 200, [1.0] * 200, direction=Direction.MAXIMIZE, margin=0.02
    )
    bad = compare("recorded", [0.0] * 200, [1.0] * 200, direction=Direction.MAXIMIZE, margin=0.02)
    assert passes([good])
    assert not passes([good, bad])
    assert not passes([])
    assert reason_of([good], 0.02) == ""
    assert "loses 200 of 200 items" in reason_of([good, bad], 0.02)
    assert "recorded" in reason_of([good, bad], 0.02)


def test_too_few_items_are_told_with_how_many_it_takes() -> None:
    few = compare("recorded", [1.0] * 40, [1.0] * 40, direction=Direction.MAXIMIZE, margin=0.02)
    assert "133" in reason_of([few], 0.02)
    assert "--margin" in reason_of([few], 0.02)


def test_only_what_was_measured_on_the_holdout_is_gated_by_it() -> None:
    search = {Split.SEARCH: evaluation(Split.SEARCH, (1.0,))}
    both = search | {half: evaluation(half, (1.0, 0.0)) for half in HOLDOUT}
    assert choose_splits(search, None, "m") == SEARCH
    assert choose_splits({}, None, "m") == SEARCH
    assert choose_splits(both, None, "m") == HOLDOUT
    assert choose_splits(both, "search", "m") == SEARCH
    with pytest.raises(InvalidInput, match="--split holdout: m has no recorded holdout"):
        choose_splits({**search, HOLDOUT[0]: both[HOLDOUT[0]]}, "holdout", "m")


def test_recorded_items_are_those_of_every_split_or_none() -> None:
    both = {half: evaluation(half, (1.0, 0.0)) for half in HOLDOUT}
    assert recorded_items(both, HOLDOUT) == [1.0, 0.0, 1.0, 0.0]
    assert recorded_items(both, (*HOLDOUT, Split.SEARCH)) == []
    both[HOLDOUT[1]] = evaluation(HOLDOUT[1], ())
    assert recorded_items(both, HOLDOUT) == []
