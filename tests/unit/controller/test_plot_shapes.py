"""What plots compute from columns: fronts, grids, importances, slots, characters of a log."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from controller.documents.finite import flagged, unflagged
from controller.documents.logs import whole_characters
from controller.plots.columns import Axis, Sample, axes_of
from controller.plots.distributions import front_places
from controller.plots.importance import importances
from controller.plots.spaces import contour


def sample_of(rows: list[tuple[dict[str, float | str], float]]) -> Sample:
    return Sample(
        numbers=range(len(rows)),
        values=[value for _, value in rows],
        outcomes=[1] * len(rows),
        params=[params for params, _ in rows],
        of=len(rows),
    )


def axis(name: str, categories: list[str] | None = None) -> Axis:
    return Axis(name=name, kind="float", log=False, categories=categories, low=0.0, high=1.0)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 3)), max_size=40))
def test_a_front_is_what_no_other_beats(rows: list[tuple[float, ...]]) -> None:
    for losses in (rows, [row[:2] for row in rows]):
        front = {losses[place] for place in front_places(losses)}
        beaten = {
            mine
            for mine in losses
            if any(o != mine and all(a <= b for a, b in zip(o, mine, strict=True)) for o in losses)
        }
        assert front == set(losses) - beaten


def test_what_does_not_matter_has_little_importance() -> None:
    rng = random.Random(1)
    rows = []
    for _ in range(1000):
        a, b, c = rng.random(), rng.random(), rng.choice("xy")
        rows.append(({"a": a, "b": b, "c": c}, -((a - 0.7) ** 2) + (0.1 if c == "x" else 0.0)))
    axes = [axis("a"), axis("b"), axis("c", ["x", "y"])]
    found = importances(sample_of(rows), axes, maximize=True)["importances"]
    assert isinstance(found, list)
    shares = {str(one["name"]): one["share"] for one in found}
    assert shares["a"] > 0.5
    assert shares["c"] > 0.1
    assert shares["b"] < 0.05


def test_importances_of_one_value_and_of_one_category_say_why_there_are_none() -> None:
    same = sample_of([({"a": n / 50}, 1.0) for n in range(50)])
    assert importances(same, [axis("a")], maximize=True)["why_empty"]
    one = sample_of([({"c": "x"}, float(n)) for n in range(50)])
    assert importances(one, [axis("c", ["x"])], maximize=True)["why_empty"]


def test_a_contour_fills_what_lies_between_and_counts_what_is_there() -> None:
    shown = contour(
        sample_of([({"a": 0.0, "b": 0.0}, 1.0), ({"a": 1.0, "b": 1.0}, 3.0)]), axis("a"), axis("b")
    )
    mean, count = shown["mean"], shown["count"]
    assert isinstance(mean, list)
    assert isinstance(count, list)
    assert mean[0][0] == 1.0
    assert mean[-1][-1] == 3.0
    filled = [value for row in mean for value in row if value is not None]
    assert len(filled) > 2
    assert all(1.0 <= value <= 3.0 for value in filled)
    assert mean[0][-1] is None, "far from any trial nothing is known"
    assert sum(sum(row) for row in count) == 2


def test_a_contour_has_a_cell_for_each_of_few_integers() -> None:
    layers = Axis(name="a", kind="int", log=False, categories=None, low=1, high=3)
    rows: list[tuple[dict[str, float | str], float]] = [
        ({"a": n, "b": 0.5}, float(n)) for n in (1, 2, 3, 3)
    ]
    shown = contour(sample_of(rows), layers, axis("b", ["0.5"]))
    assert shown["x"] == {**layers.document(), "cells": [1, 2, 3]}
    assert shown["count"] == [[1, 1, 2]]
    numbered = Axis(name="b", kind="int", log=True, categories=None, low=1, high=100)
    wide = contour(sample_of([({"a": 2, "b": 100}, 1.0)]), layers, numbered)
    assert isinstance(wide["count"], list)
    assert [len(row) for row in wide["count"]] == [3] * 24
    assert wide["count"][-1] == [0, 1, 0]


def test_a_contour_of_a_range_that_ends_at_zero_has_its_cells_inside() -> None:
    below = Axis(name="a", kind="float", log=False, categories=None, low=-2.4, high=0.0)
    shown = contour(sample_of([({"a": -1.0, "b": 0.5}, 1.0)]), below, axis("b"))
    x = shown["x"]
    assert isinstance(x, dict)
    cells = x["cells"]
    assert isinstance(cells, list)
    assert (cells[0], cells[-1]) == (-2.35, -0.05)


def test_a_contour_of_values_near_the_largest_there_are_is_finite() -> None:
    """What a program gives that has no better word for how bad it was."""
    rows: list[tuple[dict[str, float | str], float]] = [({"a": 0.5, "b": 0.5}, 1e308)] * 3
    shown = contour(sample_of([*rows, ({"a": 0.6, "b": 0.5}, 1.5e308)]), axis("a"), axis("b"))
    mean = shown["mean"]
    assert isinstance(mean, list)
    assert {value for row in mean for value in row if value is not None and value < 1.1e308}
    assert all(math.isfinite(value) for row in mean for value in row if value is not None)


def test_an_axis_of_choices_places_every_kind_of_value() -> None:
    (found,) = axes_of({"c": {"type": "categorical", "choices": [True, 16, "adam"]}})
    assert [found.place(value) for value in (True, 16, "adam", "none", None)] == [
        0,
        1,
        2,
        None,
        None,
    ]


@given(st.text(max_size=20), st.integers(0, 80))
def test_a_log_is_cut_between_characters(text: str, at: int) -> None:
    data = text.encode("utf-8", "replace")
    first = whole_characters(data[:at])
    assert data.startswith(first)
    first.decode()
    assert len(data[:at]) - len(first) < 4


def test_bytes_that_are_no_text_are_given_as_they_are() -> None:
    assert whole_characters(b"\x80\x80\x80\x80") == b"\x80\x80\x80\x80"
    assert whole_characters(b"\xff") == b"\xff"
    assert whole_characters("é".encode()) == "é".encode()


def test_flags_name_each_number_that_json_cannot_hold() -> None:
    assert flagged({"a": float("nan"), "b": [1.0, {"c": float("-inf")}]}) == {
        "a": None,
        "b": [1.0, {"c": None}],
        "non_finite": [{"path": "a", "value": "nan"}, {"path": "b/1/c", "value": "-inf"}],
    }
    assert flagged({"a": 1}) == {"a": 1, "non_finite": []}
    whole = {"a": 1, "b": [{"c/d": float("inf")}]}
    assert unflagged({"items": [flagged(whole)]}) == {"items": [whole]}
