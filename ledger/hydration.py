"""Stored entries back to their classes, so that they can be projected again."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

from ledger.entries import Entry
from ledger.errors import InvalidInput

_Convert: TypeAlias = Callable[[Any], Any]

ENTRY_CLASSES: Final[Mapping[str, type[Entry]]] = {cls.kind: cls for cls in get_args(Entry)}


def parse_entry(
    kind: str, payload: Mapping[str, object], unsealed: Mapping[str, object] | None = None
) -> Entry:
    """The entry that a body's kind and payload came from, with its unsealed fields if given.

    Raises:
        InvalidInput: the kind is unknown or the fields are not its own.
    """
    cls = ENTRY_CLASSES.get(kind)
    if cls is None:
        raise InvalidInput(f"entry kind {kind}: this ARL knows no such entry")
    converters = _converters(kind)
    construct: Callable[..., Entry] = cls
    try:
        values = {name: converters[name](value) for name, value in payload.items()}
        return construct(**values, **(unsealed or {}))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"entry {kind}: its fields do not fit: {error!r}") from error


@cache
def _converters(kind: str) -> dict[str, _Convert]:
    cls = ENTRY_CLASSES[kind]
    hints = get_type_hints(cls)
    sealed = [f.name for f in fields(cls) if f.metadata.get("sealed", True)]
    return {name: _converter(hints[name]) for name in sealed}


def _converter(hint: Any) -> _Convert:
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        inner = [_converter(arg) for arg in get_args(hint) if arg is not type(None)]
        if len(inner) == 1:
            return lambda value: None if value is None else inner[0](value)
    if origin is tuple:
        item = _converter(get_args(hint)[0])
        return lambda value: tuple(item(one) for one in value)
    if hint is float:
        return float  # JSON writes 1.0 as 1.0, but a caller may have given the integer 1
    return lambda value: value
