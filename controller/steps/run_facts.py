"""Reads what a built-in program says it ran with; a hostile file gives nothing."""

import json
import math
from collections.abc import Mapping
from typing import Final

from controller.documents.plain_text import plain
from inner_trials.contract import FACTS_BYTES, FACTS_FILE
from ledger.artifacts import ArtifactStore
from ledger.errors import ArtifactCorrupt, NotFound
from ledger.records import Json

DEEPEST: Final = 8
LONGEST_TEXT: Final = 2000
LARGEST_NUMBER: Final = 2**63


def read_facts(store: ArtifactStore, tree: str | None) -> Mapping[str, Json]:
    """The facts in an artifact's tree, made safe; empty where there are none or they are broken:
    what rests on them is missing from the lineage then."""
    if tree is None:
        return {}
    try:
        found = {path: (size, digest) for path, _, size, digest in store.manifest(tree)}
        size, digest = found.get(FACTS_FILE, (FACTS_BYTES + 1, ""))
        if size > FACTS_BYTES:
            return {}
        document = _safe(json.loads(store.read_bytes(digest)), DEEPEST)
    except (ArtifactCorrupt, NotFound, ValueError, RecursionError):
        return {}
    return document if isinstance(document, Mapping) else {}


def _safe(value: object, depth: int) -> Json:
    """Raises ValueError for what no lineage needs: depth, long texts, numbers that are none."""
    if depth == 0:
        raise ValueError("it is too deep")
    if isinstance(value, Mapping):
        return {_text(str(name)): _safe(inner, depth - 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_safe(inner, depth - 1) for inner in value]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float) and not -LARGEST_NUMBER < value < LARGEST_NUMBER:
        raise ValueError("a number is too large, or none")
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{type(value).__name__} is no JSON")


def _text(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise ValueError("a text is too long")
    return plain(text)
