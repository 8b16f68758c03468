"""Documents whose numbers JSON can hold, with a list of those that it cannot."""

import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from ledger.records import Json

NON_FINITE = "non_finite"


def flagged(document: Mapping[str, Json]) -> dict[str, Json]:
    """`document` with null for each number that is not finite, however deep, and those under
    `non_finite`, which is always there: `[{"path": "latest/3/value", "value": "nan"}]`."""
    found: list[Json] = []
    made = {key: _finite(value, key, found) for key, value in document.items()}
    return {**made, NON_FINITE: found}


def unflagged(document: Json) -> Json:
    """A document that came as JSON with its numbers back in their places, however deep lies what
    was flagged."""
    if isinstance(document, list):
        return [unflagged(item) for item in document]
    if not isinstance(document, dict):
        return document
    made = {key: unflagged(item) for key, item in document.items() if key != NON_FINITE}
    flags = document.get(NON_FINITE)
    if not _are_flags(flags):
        return made if flags is None else {**made, NON_FINITE: flags}
    for flag in flags:
        _put_back(made, str(flag["path"]).split("/"), float(str(flag["value"])))
    return made


def _are_flags(flags: Json) -> TypeGuard[list[dict[str, Json]]]:
    return isinstance(flags, list) and all(
        isinstance(flag, dict) and flag.keys() == {"path", "value"} for flag in flags
    )


def _put_back(document: dict[str, Json], path: list[str], value: float) -> None:
    """Keys may hold slashes themselves: the longest that is there is meant."""
    for length in range(len(path), 0, -1):
        key, rest = "/".join(path[:length]), path[length:]
        if key not in document:
            continue
        inner = document[key]
        if not rest:
            document[key] = value
        elif isinstance(inner, dict):
            _put_back(inner, rest, value)
        elif isinstance(inner, list):
            within: dict[str, Json] = {str(i): item for i, item in enumerate(inner)}
            _put_back(within, rest, value)
            document[key] = list(within.values())
        return


def _finite(value: Json, path: str, found: list[Json]) -> Json:
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        found.append({"path": path, "value": str(value)})
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item, f"{path}/{key}", found) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(item, f"{path}/{i}", found) for i, item in enumerate(value)]
    return value
