"""Documents whose numbers JSON can hold, with a list of those that it cannot."""

import math
from collections.abc import Mapping, Sequence

from ledger.records import Json

NON_FINITE = "non_finite"


def flagged(document: Mapping[str, Json]) -> dict[str, Json]:
    """`document` with null for each number that is not finite, however deep, and the paths of
    those under `non_finite`: `[{"path": "latest/3/value", "value": "nan"}]`."""
    found: list[Json] = []
    made = {key: _finite(value, key, found) for key, value in document.items()}
    return {**made, NON_FINITE: found} if found else made


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
