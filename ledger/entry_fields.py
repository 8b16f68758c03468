"""Which fields of an entry are in the chain, and which are represented there by a digest."""

from dataclasses import fields
from typing import Any, Final

UNSEALED: Final = {"sealed": False}
"""Of a field that is stored in rows of its own; a digest stands beside it."""
_NAMES: dict[type, tuple[str, ...]] = {}


def sealed_names(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class of entries that its canonical JSON holds, in their order."""
    names = _NAMES.get(kind)
    if names is None:
        names = tuple(f.name for f in fields(kind) if f.metadata.get("sealed", True))
        _NAMES[kind] = names
    return names
