"""Curves are thinned evenly and keep both ends."""

from hypothesis import given
from hypothesis import strategies as st

from ledger.curves import parse_values, thin_out
from ledger.digests import values_json
from ledger.records import IntermediateValue


@given(st.integers(0, 500), st.integers(2, 100))
def test_a_curve_keeps_its_ends_and_order(length: int, points: int) -> None:
    curve = [(step, float(step)) for step in range(length)]
    thin = thin_out(curve, points)
    assert len(thin) == min(length, points)
    assert thin == sorted(set(thin))
    if length:
        assert (thin[0], thin[-1]) == (curve[0], curve[-1])


@given(st.lists(st.floats()))
def test_values_of_any_kind_come_back(values: list[float]) -> None:
    said = tuple(
        IntermediateValue(step=i, metric="m", value=value) for i, value in enumerate(values)
    )
    read = parse_values(values_json(said))
    assert [repr(v.value) for v in read] == [repr(v.value) for v in said]
    assert [(v.step, v.metric) for v in read] == [(v.step, v.metric) for v in said]
