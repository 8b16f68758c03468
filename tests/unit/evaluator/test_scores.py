"""What is a score, and everything that is not."""

import json
import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.scores import ITEMS_CAP, MetricRange, ScoreRefused, Scores, parse_scores
from inner_trials.contract import SCORE_BYTES

METRICS = {"exact_match": MetricRange(low=0.0, high=1.0), "length": MetricRange()}


def parse(raw: str | bytes, metrics: Mapping[str, MetricRange] = METRICS) -> Scores | ScoreRefused:
    data = raw.encode() if isinstance(raw, str) else raw
    return parse_scores(data, metrics=metrics, objective="exact_match")


def document(**changes: object) -> str:
    metrics = {"exact_match": 0.5, "length": 12, **changes}
    return json.dumps({"metrics": metrics})


def refusal(raw: str | bytes) -> str:
    found = parse(raw)
    assert isinstance(found, ScoreRefused), f"{raw!r:.80} was taken as a score"
    return found.reason


def test_a_well_formed_document_is_read_whole() -> None:
    found = parse('{"metrics": {"length": 3, "exact_match": 0.25}, "items": [1, 0, 0, 0]}\n')
    assert found == Scores(0.25, {"exact_match": 0.25, "length": 3.0}, (1.0, 0.0, 0.0, 0.0))


def test_without_declared_metrics_the_objective_alone_is_expected() -> None:
    assert parse('{"metrics": {"exact_match": 7}}', {}) == Scores(7.0, {"exact_match": 7.0})
    assert isinstance(parse('{"metrics": {"other": 7}}', {}), ScoreRefused)


@pytest.mark.parametrize("number", ["0", "1", "0.0", "1e-9", "-0.0", "1E0"])
def test_the_ends_of_the_range_are_inside(number: str) -> None:
    assert isinstance(parse(document().replace("0.5", number)), Scores)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e999", "not finite"),
        ("-1e999", "not finite"),
        ('"5"', "a string"),
        ('"0.5"', "a string"),
        ("true", "true or false"),
        ("false", "true or false"),
        ("null", "null"),
        ("[0.5]", "a list"),
        ('{"value": 0.5}', "an object"),
        ("1.0000001", "above its declared highest"),
        ("-0.0001", "below its declared lowest"),
        ("1" + "0" * 400, "not finite"),
        ("1" + "0" * 5000, "not JSON"),
        ("1e61", "larger than any score"),
        ("0x1", "not JSON"),
        (".5", "not JSON"),
        ("05", "not JSON"),
    ],
)
def test_what_is_no_number_in_range_is_no_score(written: str, said: str) -> None:
    assert said in refusal(document().replace("0.5", written))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "wrote no score"),
        (b" \n", "wrote no score"),
        (b"0.5", "must be one object"),
        (b"[]", "must be one object"),
        (b"null", "must be one object"),
        (b"{}", "lacks"),
        (b'{"exact_match": 0.5}', "only metrics and items"),
        (b'{"metrics": [0.5]}', "lacks"),
        (b'{"metrics": {"exact_match": 0.5}}', "metrics.length is declared but missing"),
        (b'{"metrics": {}, "metrics": {}}', "repeats"),
        (b'{"metrics": {"exact_match": 0.1, "exact_match": 0.9, "length": 1}}', "repeats"),
        (b'{"metrics": {"exact_match": 1, "length": 1}}{"metrics": {}}', "not JSON"),
        (b'{"metrics": {"exact_match": 1, "length": 1}', "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'\xef\xbb\xbf{"metrics": {"exact_match": 1, "length": 1}}', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"metrics":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_score_document_is_refused(raw: bytes, said: str) -> None:
    assert said in refusal(raw)


def test_an_undeclared_metric_is_refused_and_named_safely() -> None:
    reason = refusal(document(**{"a\x1b[31m\u202eb": 1}))
    assert "not a declared metric" in reason
    assert reason.isascii()
    assert reason.isprintable()


def test_a_huge_document_is_refused_unread() -> None:
    padded = document().encode() + b" " * SCORE_BYTES
    assert "longer than" in refusal(padded)
    assert isinstance(parse(document().encode().ljust(SCORE_BYTES)), Scores)


@pytest.mark.parametrize("items", ["null", "{}", "[true]", '["1"]', "[null]", "[NaN]", "[1e999]"])
def test_items_are_numbers_or_nothing(items: str) -> None:
    raw = document()[:-1] + f', "items": {items}}}'
    assert isinstance(parse(raw), ScoreRefused)


def test_too_many_items_are_refused() -> None:
    raw = document()[:-1] + ', "items": [' + "1," * ITEMS_CAP + "1]}"
    assert "at most" in refusal(raw)


def test_an_undeclared_objective_is_refused() -> None:
    raw = b'{"metrics": {"length": 1}}'
    found = parse_scores(raw, metrics={"length": MetricRange()}, objective="exact_match")
    assert isinstance(found, ScoreRefused)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from([0.5, "metrics", 1]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metrics", "items", "exact_match", "length", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(json_values)
@settings(max_examples=400)
def test_whatever_is_accepted_is_finite_typed_and_in_range(value: object) -> None:
    found = parse(json.dumps(value))
    if isinstance(found, Scores):
        assert set(found.metrics) == set(METRICS)
        assert all(type(v) is float and math.isfinite(v) for v in found.metrics.values())
        assert 0.0 <= found.value <= 1.0
        assert isinstance(value, dict)
        assert type(value["metrics"]["exact_match"]) in (int, float)


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_no_bytes_raise_and_hardly_any_are_a_score(raw: bytes) -> None:
    assert isinstance(parse(raw), ScoreRefused)


@given(st.floats(0, 1), st.floats(-1e60, 1e60))
def test_every_number_in_range_comes_back_exactly(match: float, length: float) -> None:
    found = parse(document(exact_match=match, length=length))
    assert isinstance(found, Scores)
    assert found.metrics == {"exact_match": match, "length": length}
