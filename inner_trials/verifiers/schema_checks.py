"""JSON Schema with the `jsonschema` library, and with bounds on what a hostile text makes slow."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

PATTERN_TIME_S: Final = 0.25
"""For all patterns of one answer together."""


def schema_problem(schema: Mapping[str, Any]) -> str | None:
    """Why this is no schema, or None."""
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return str(error.message)
    return None


def first_problem(value: object, schema: Mapping[str, Any]) -> str | None:
    """Why the schema does not accept the value, or None."""
    import jsonschema
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An empty registry: a $ref to an address fetches nothing.
    validator = _class(_Patterns())(schema, registry=Registry())
    try:
        found = next(validator.iter_errors(value), None)
    except TimeoutError:
        return "time-out"
    except (
        Unresolvable,
        RecursionError,
        OverflowError,  # multipleOf, of a whole number that no float is near to
        jsonschema.exceptions.UnknownType,
    ) as error:
        return f"schema: {type(error).__name__}"
    if found is None:
        return None
    return f"{found.validator} at {found.json_path}"[:200]


def canonical(value: object) -> str:
    """Equal for values that JSON Schema calls equal: 1 is 1.0, and true is neither."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class _Patterns:
    """Matches patterns until their time is up."""

    def __init__(self) -> None:
        self._give_up = time.monotonic() + PATTERN_TIME_S

    def matches(self, pattern: str, text: str) -> bool:
        """Raises TimeoutError."""
        import regex

        left = self._give_up - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return regex.search(pattern, text, timeout=left) is not None

    def check(self, _: Any, pattern: str, text: object, __: Any) -> Iterator[Any]:
        import jsonschema

        if isinstance(text, str) and not self.matches(pattern, text):
            yield jsonschema.ValidationError("the pattern does not match")

    def check_properties(
        self, validator: Any, patterns: Mapping[str, Any], value: object, _: Any
    ) -> Iterator[Any]:
        if not isinstance(value, dict):
            return
        for pattern, below in patterns.items():
            for key, item in value.items():
                if self.matches(pattern, key):
                    yield from validator.descend(item, below, path=key, schema_path=pattern)

    def check_additional(
        self, validator: Any, below: Any, value: object, schema: Mapping[str, Any]
    ) -> Iterator[Any]:
        """The library looks for a schema's patterns in what is left over without any bound."""
        import jsonschema

        if not isinstance(value, dict):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for key, item in value.items():
            if key in known or any(self.matches(pattern, key) for pattern in patterns):
                continue
            if below is False:
                yield jsonschema.ValidationError("a property that is not allowed")
            else:
                yield from validator.descend(item, below, path=key)


def _check_unique(_: Any, wanted: object, value: object, __: Any) -> Iterator[Any]:
    # The library compares every item with every other one when they cannot be sorted.
    import jsonschema

    if wanted and isinstance(value, list) and len(set(map(canonical, value))) != len(value):
        yield jsonschema.ValidationError("an item twice")


def _class(patterns: _Patterns) -> Any:
    import jsonschema

    return jsonschema.validators.extend(
        jsonschema.Draft202012Validator,
        {
            "pattern": patterns.check,
            "patternProperties": patterns.check_properties,
            "additionalProperties": patterns.check_additional,
            "uniqueItems": _check_unique,
        },
    )
