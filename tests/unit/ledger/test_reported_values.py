"""Reported values are stored as they were said."""

from hypothesis import given
from hypothesis import strategies as st

from ledger.curves import metric_values, parse_values
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


NAMES = st.sampled_from(["m", "m0", "a/b", ',"m",', '"', "\\", "ä", "[1", "]", "nan", "m\\"])


@given(st.lists(st.tuples(st.integers(0, 10**12), NAMES | st.text(min_size=1), st.floats())))
def test_values_of_one_metric_are_those_that_were_said_of_it(
    said: list[tuple[int, str, float]],
) -> None:
    payload = values_json([IntermediateValue(step=s, metric=m, value=v) for s, m, v in said])
    for name in {metric for _, metric, _ in said} | {"m", ',"m",'}:
        found = [(step, repr(value)) for step, value in metric_values(payload, name)]
        assert found == [(s, repr(v)) for s, m, v in said if m == name]
