"""Reported values are stored as they were said."""

from hypothesis import given
from hypothesis import strategies as st

from ledger.curves import parse_values
from ledger.digests import values_json
from ledger.records import IntermediateValue


@given(st.lists(st.floats()))
def test_values_of_any_kind_come_back(values: list[float]) -> None:
    said = tuple(
        IntermediateValue(step=i, metric="m", value=value) for i, value in enumerate(values)
    )
    read = parse_values(values_json(said))
    assert [repr(v.value) for v in read] == [repr(v.value) for v in said]
    assert [(v.step, v.metric) for v in read] == [(v.step, v.metric) for v in said]
