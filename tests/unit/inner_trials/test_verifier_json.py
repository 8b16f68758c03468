"""The JSON verifier: what JSON Schema accepts passes, what looks like it or hangs does not."""

import json
import time

import pytest

from inner_trials.verifiers.protocol import BadReferenceError
from inner_trials.verifiers.registry import make_verifier

pytestmark = pytest.mark.train  # jsonschema and regex are installed with the training libraries

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^(a+)+$"},
        "ages": {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def reward(completion: str, **row: object) -> float:
    verifier = make_verifier("json_schema", {})
    given = {"schema": SCHEMA, **row}
    verifier.check(given)
    return verifier.verify(completion, given).reward


def test_an_instance_passes_plain_or_in_one_fence() -> None:
    assert reward('{"name": "aaa"}') == 1.0
    assert reward('\n```json\n{"name": "a", "ages": [1, 2]}\n```\n') == 1.0


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "{}",
        "name: aaa",
        '{"name": "b"}',
        '{"name": "a", "name": "a"}',
        '{"name": "a", "extra": 1}',
        '{"name": "a"} and more',
        '{"name": "a"}{"name": "a"}',
        '{"name": "a", "ages": [1, 1]}',
        '{"name": "a", "ages": [1, 1.0]}',
        '{"name": "a", "ages": [true]}',
        '{"name": "a", "ages": [NaN]}',
        '{"name": "a", "ages": [1e999]}',
        '{"name": "a", "ages": [' + "9" * 5000 + "]}",
        "{'name': 'a'}",
        '{"name": "a",}',
        "```json\nnull\n```\n```json\n" + '{"name": "a"}\n```',
        "valid true passed",
    ],
)
def test_what_is_not_strict_json_or_not_an_instance_fails(completion: str) -> None:
    assert reward(completion) == 0.0


@pytest.mark.parametrize(
    "bomb",
    [
        '{"name": "' + "a" * 60 + '!"}',
        "[" * 50_000,
        '{"a":' * 20_000 + "1" + "}" * 20_000,
        '{"name": "a", "ages": [' + "[],{}," * 10_000 + "1]}",
        '{"name": "a", "ages": [' + ",".join(map(str, range(12_000))) + ", 1]}",
        " " * 1_000_000,
    ],
)
def test_a_bomb_fails_within_a_second(bomb: str) -> None:
    started = time.process_time()
    assert reward(bomb) == 0.0
    assert time.process_time() - started < 1.0


def test_an_answer_is_compared_as_json_compares() -> None:
    assert reward("[1.0, 2]", schema={}, answer=[1, 2.0]) == 1.0
    assert reward("[true, 2]", schema={}, answer=[1, 2]) == 0.0
    assert reward('{"b": 1, "a": 2}', schema={}, answer={"a": 2, "b": 1}) == 1.0
    assert reward("[2, 1]", schema={}, answer=[1, 2]) == 0.0


def test_a_number_that_no_float_is_near_to_fails() -> None:
    assert reward("1" + "0" * 400, schema={"multipleOf": 0.5}) == 0.0


def test_a_reference_to_an_address_is_never_fetched() -> None:
    schema = {"$ref": "http://127.0.0.1:9/schema.json"}
    verifier = make_verifier("json_schema", {})
    assert verifier.verify("1", {"schema": schema}).reason.startswith("schema: ")


def test_a_broken_or_missing_schema_is_named_before_anything_runs() -> None:
    verifier = make_verifier("json_schema", {})
    with pytest.raises(BadReferenceError, match="'objct' is not valid"):
        verifier.check({"schema": {"type": "objct"}})
    with pytest.raises(BadReferenceError, match="neither a schema nor an answer"):
        verifier.check({"prompt": "x"})
    with pytest.raises(BadReferenceError, match="schema must be an object"):
        verifier.check({"schema": "x"})


def test_properties_that_are_left_over_are_looked_for_within_the_same_time() -> None:
    schema = {"additionalProperties": False, "patternProperties": {"^(a|a)*$": {}}}
    started = time.process_time()
    assert reward(json.dumps({"a" * 60 + "!": 1}), schema=schema) == 0.0
    assert time.process_time() - started < 1.0


def test_properties_that_are_left_over_are_refused_or_checked_as_the_schema_says() -> None:
    schema = {"properties": {"a": {}}, "patternProperties": {"^b": {}}}
    closed = {**schema, "additionalProperties": False}
    assert reward('{"a": 1, "b1": 2}', schema=closed) == 1.0
    assert reward('{"a": 1, "c": 2}', schema=closed) == 0.0
    numbers = {**schema, "additionalProperties": {"type": "number"}}
    assert reward('{"a": "x", "c": 2}', schema=numbers) == 1.0
    assert reward('{"a": "x", "c": "y"}', schema=numbers) == 0.0
