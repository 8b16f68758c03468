"""What plots remember of many trials: as much as was asked for, and what it would have been."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.plots import arms as arms_module
from controller.plots.arms import WINDOW, Arms
from controller.plots.columns import chosen_places
from controller.plots.history import Summary
from controller.plots.kept import Remembered, from_bytes, to_bytes
from ledger.plot_reads import OUTCOMES, FinishedColumns
from ledger.records import Json


def columns_of(values: list[float]) -> FinishedColumns:
    columns = FinishedColumns()
    for place, value in enumerate(values):
        columns.finish.append(place + 1)
        columns.number.append(place)
        columns.outcome.append(OUTCOMES.index("discarded" if math.isfinite(value) else "failed"))
        columns.value.append(value)
    return columns


@given(st.integers(0, 300), st.integers(4, 60), st.integers(0, 2**32))
def test_a_choice_holds_the_best_quarter_and_every_nth_of_the_others(
    count: int, limit: int, seed: int
) -> None:
    rng = random.Random(seed)
    valued = sorted(rng.sample(range(1000), count))
    ranked = rng.sample(valued, count)
    found = chosen_places(valued, ranked[:100], limit)
    best = valued if count <= limit else ranked[: limit // 4]
    others = [place for place in valued if place not in set(best)]
    wanted = limit - len(best)
    spread = [] if count <= limit else [others[n * len(others) // wanted] for n in range(wanted)]
    assert found == sorted({*best, *spread})


def test_an_arms_curve_of_many_trials_keeps_its_extremes_and_no_more_than_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arms_module, "REMEMBERED", 64)
    rng = random.Random(3)
    values = [rng.choice([rng.gauss(0, 1), math.nan, 5.0]) for _ in range(3000)]
    columns, arms = columns_of(values), Arms(maximize=True)
    arms.update(columns, ["a"] * 2000)
    arms.update(columns, ["a"] * 1000)
    arm = arms.arms["a"]
    finite = [value for value in values if math.isfinite(value)]
    means = [
        math.fsum(finite[max(0, i - WINDOW + 1) : i + 1]) / min(i + 1, WINDOW)
        for i in range(len(finite))
    ]
    assert len(arm.mean) <= 64 + arm.block
    assert min(arm.mean) == pytest.approx(min(means))
    assert max(arm.mean) == pytest.approx(max(means))
    assert arm.mean[-1] == pytest.approx(means[-1])
    assert list(arm.finish) == sorted(arm.finish)
    told = arms.document()[0]
    assert isinstance(told, dict)
    assert (told["trials"], told["best_value"]) == (3000, max(finite))


def test_one_huge_value_is_forgotten_once_it_left_the_window() -> None:
    values = [1e20, *[0.5] * (2 * WINDOW)]
    arms = Arms(maximize=False)
    arms.update(columns_of(values), ["a"] * len(values))
    assert arms.arms["a"].mean[-1] == 0.5


@pytest.mark.parametrize("maximize", [True, False])
def test_what_is_remembered_comes_back_as_it_was_and_goes_on(maximize: bool) -> None:
    rng = random.Random(7)
    values = [rng.choice([rng.gauss(0, 1), math.nan]) for _ in range(900)]
    names = [rng.choice(["tpe", "llm/1", "ä"]) for _ in values]

    def counted(parts: list[int], *, through_bytes: bool) -> list[Json]:
        known = Remembered(Summary(maximize=maximize), Arms(maximize=maximize))
        for end in parts:
            start = len(known.columns)
            more = columns_of(values[:end])
            known.columns.finish.extend(more.finish[start:])
            known.columns.number.extend(more.number[start:])
            known.columns.outcome.extend(more.outcome[start:])
            known.columns.value.extend(more.value[start:])
            known.summary.update(known.columns)
            known.arms.update(known.columns, names[start:end])
            if through_bytes:
                known = from_bytes(to_bytes(known))
        summary = known.summary
        told: list[Json] = [list(summary.valued), list(summary.other), list(summary.extremes)]
        told += [list(summary.best), list(summary.kept), list(summary.top)]
        return [*told, known.arms.document()]

    assert counted([400, 401, 900], through_bytes=True) == counted([900], through_bytes=False)


def test_damaged_bytes_are_refused() -> None:
    known = Remembered(Summary(maximize=True), Arms(maximize=True), columns_of([1.0, 2.0]))
    data = bytearray(to_bytes(known))
    for place in (0, 9, len(data) - 1):
        wrong = bytearray(data)
        wrong[place] ^= 1
        with pytest.raises(ValueError, match="damaged"):
            from_bytes(bytes(wrong))
    with pytest.raises(ValueError, match="damaged"):
        from_bytes(bytes(data[:-4]))
