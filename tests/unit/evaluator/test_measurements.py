"""What the measuring program wrote is taken as named numbers of two models, or not at all."""

import json

import pytest

from evaluator.measurements import MAX_BYTES, parse_measurement
from evaluator.scores import ScoreRefused

SIDE = {"token_s": 0.01, "size_bytes": 100}
GOOD = {"unconverted": SIDE, "converted": SIDE, "machine": {"device": "cpu", "threads": 1}}


def test_a_measurement_is_given_back_as_it_is() -> None:
    assert parse_measurement(json.dumps(GOOD).encode()) == GOOD


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"\xff",
        b"{" * 100_000,
        b" " * (MAX_BYTES + 1),
        json.dumps({**GOOD, "score": 1}).encode(),
        json.dumps({**GOOD, "converted": {"token_s": 0.01}}).encode(),
        json.dumps({**GOOD, "converted": {**SIDE, "token_s": "fast"}}).encode(),
        json.dumps({**GOOD, "converted": {**SIDE, "token_s": True}}).encode(),
        json.dumps({**GOOD, "unconverted": {**SIDE, "token_s": float("nan")}}).encode(),
        json.dumps({**GOOD, "machine": {"device": "x" * 201}}).encode(),
        json.dumps({**GOOD, "machine": ["cpu"]}).encode(),
        json.dumps({**GOOD, "machine": {"threads": 10**400}}).encode(),
        json.dumps({**GOOD, "converted": {**SIDE, "token_s": 10**400}}).encode(),
        json.dumps({**GOOD, "converted": {**SIDE, "x" * 61: 1}}).encode(),
    ],
)
def test_anything_else_is_refused_with_a_reason(raw: bytes) -> None:
    found = parse_measurement(raw)
    assert isinstance(found, ScoreRefused)
    assert found.reason.startswith("the measurement")
