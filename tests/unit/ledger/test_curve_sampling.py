"""Sampling of curves, and the words of lists' columns and comparisons."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import InvalidInput
from ledger.sampling import kept_positions
from ledger.trial_fields import Condition, Field, Source, parse_condition, parse_field


@given(
    st.lists(st.none() | st.floats(allow_nan=True), max_size=400),
    st.integers(min_value=4, max_value=60),
)
def test_a_sample_is_in_order_within_its_limit_and_has_the_extremes(
    values: list[float | None], limit: int
) -> None:
    kept = kept_positions(values, limit)
    assert kept == sorted(set(kept))
    assert len(kept) <= limit
    assert (len(values) <= limit) == (len(kept) == len(values)) or len(values) > limit
    numbers = [value for value in values if value is not None and not math.isnan(value)]
    if numbers and len(values) > limit:
        shown = [values[position] for position in kept]
        assert min(numbers) in shown
        assert max(numbers) in shown
        assert (kept[0], kept[-1]) == (0, len(values) - 1)


def test_columns_and_comparisons_are_read_as_written() -> None:
    assert parse_field("value") == Field(Source.VALUE)
    assert parse_field("metrics.train/loss") == Field(Source.METRICS, "train/loss")
    assert parse_condition("params.lr>=1e-3") == Condition(
        Field(Source.PARAMS, "lr"), ">=", "1e-3"
    )
    assert parse_condition("metrics.a/b!=2").field.name == "a/b"
    assert parse_condition("params.opt=a=b").operand == "a=b"
    assert str(parse_field("scores.f1.macro")) == "scores.f1.macro"


@pytest.mark.parametrize("text", ["", "values", "params.", "params.a-b", "metrics.", "number.x"])
def test_what_is_no_column_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="sort"):
        parse_field(text)
