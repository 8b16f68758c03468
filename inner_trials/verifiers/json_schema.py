"""JSON answers: strict JSON that a JSON Schema accepts, equal to the row's value if it has one.

The schema is the study's (a row's `schema`, or the option `schema`), the text the model's: what a
text can make slow (patterns, duplicates, depth, length) is bounded.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from inner_trials.verifiers import schema_checks
from inner_trials.verifiers.protocol import (
    RIGHT,
    BadReferenceError,
    Verdict,
    malformed,
)

MAX_JSON_CHARS: Final = 64 * 1024
MAX_JSON_DEPTH: Final = 64

_FENCE: Final = re.compile(r"\s*```(?:json)?[ \t]*\n(?P<body>.*?)\n?```\s*", re.DOTALL)


class _NotStrictError(ValueError):
    """The text is JSON to some readers and not to others, or holds what no answer needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchema:
    version: ClassVar[str] = "json_schema/1"

    schema: dict[str, Any] = field(default_factory=dict)
    """For rows that bring none."""
    fences: bool = True
    """Whether one block between ``` may be around it."""

    def check(self, row: Mapping[str, Any]) -> None:
        schema = self._schema(row)
        if not schema and "answer" not in row:
            raise BadReferenceError(
                "there is neither a schema nor an answer; write schema in the row or in"
                " verifier_options"
            )
        problem = schema_checks.schema_problem(schema)
        if problem is not None:
            raise BadReferenceError(f"schema: {problem}")

    def verify(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        text = completion
        if len(text) > MAX_JSON_CHARS:
            return malformed("too long")
        if self.fences and (fenced := _FENCE.fullmatch(text)):
            text = fenced["body"]
        try:
            value = _strict_json(text)
        except (_NotStrictError, ValueError, RecursionError):
            return malformed("not strict JSON")
        schema = self._schema(row)
        if schema and (problem := schema_checks.first_problem(value, schema)) is not None:
            return Verdict(reward=0.0, well_formed=True, reason=problem)
        if "answer" in row and not _is_equal(value, row["answer"]):
            return Verdict(reward=0.0, well_formed=True, reason="another value")
        return RIGHT

    def _schema(self, row: Mapping[str, Any]) -> dict[str, Any]:
        given = row.get("schema", self.schema)
        if not isinstance(given, dict):
            raise BadReferenceError("schema must be an object")
        return given


def _strict_json(text: str) -> object:
    """One JSON value: no key twice, no NaN or infinity (1e999 is one), bounded depth."""

    def unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
        read = dict(pairs)
        if len(read) != len(pairs):
            raise _NotStrictError("a key twice")
        return read

    def finite(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise _NotStrictError("not finite")
        return value

    def refuse(word: str) -> object:
        raise _NotStrictError(word)

    value = json.loads(text, object_pairs_hook=unique, parse_float=finite, parse_constant=refuse)
    if _depth(value) > MAX_JSON_DEPTH:
        raise _NotStrictError("too deep")
    return value


def _depth(value: object) -> int:
    level, depth = [value], 0
    while level:
        depth += 1
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = below
    return depth


def _is_equal(left: object, right: object) -> bool:
    """JSON's equality: 1 is 1.0, and true is neither."""
    return schema_checks.canonical(left) == schema_checks.canonical(right)
