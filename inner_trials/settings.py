"""A program's settings: one dataclass of defaults, filled from params.json, checked strictly."""

import dataclasses
import difflib
import math
import types
from collections.abc import Mapping
from typing import (
    Any,
    ClassVar,
    Final,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

LARGEST: Final = 2**53
"""Of whole numbers: what every library takes."""


class SettingsError(ValueError):
    """A setting is unknown, has the wrong type or is out of range; one line says which and how."""


class _Settings(Protocol):
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


T = TypeVar("T", bound=_Settings)


def at_least(low: float, *, default: object) -> Any:
    """A dataclass field whose value must be `low` or more."""
    return dataclasses.field(default=default, metadata={"at_least": low})


def above(low: float, *, default: object) -> Any:
    """A dataclass field whose value must be more than `low`."""
    return dataclasses.field(default=default, metadata={"above": low})


def read_settings(cls: type[T], document: Mapping[str, Any]) -> T:
    """Make `cls` from a params document: its defaults, then `options`, then `parameters`.

    An int is taken for a float, and a float without fraction for an int; nothing else is
    converted.

    Raises:
        SettingsError: naming the setting, its value and what is allowed.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    hints = get_type_hints(cls)
    values: dict[str, object] = {}
    for section in ("options", "parameters"):
        for name, value in (document.get(section) or {}).items():
            where = f"{section}.{name}"
            if name not in fields:
                raise SettingsError(f"{where}: {_unknown(name, list(fields))}")
            values[name] = _checked(where, value, hints[name], fields[name].metadata)
    return cls(**values)


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"unknown option{hint}; known options: {', '.join(sorted(known))}"


def _checked(where: str, value: object, hint: Any, rules: Mapping[str, float]) -> object:
    allowed = _alternatives(hint)
    if value is None and types.NoneType in allowed:
        return None
    for kind in allowed:
        if get_origin(kind) is Literal and value in get_args(kind):
            return value
        if get_origin(kind) is dict and isinstance(value, dict):
            return value
        if isinstance(kind, type) and (converted := _converted(value, kind)) is not None:
            _check_range(where, converted, rules)
            return converted
    raise SettingsError(f"{where}: {value!r} is not {_spelled(allowed)}")


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _converted(value: object, kind: type) -> object:
    """`value` as a `kind`, or None when it is not one."""
    if isinstance(value, bool) or kind is bool:
        return value if isinstance(value, bool) and kind is bool else None
    if kind is float and isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:  # a whole number that no float is near to
            return None
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, kind) else None


def _check_range(where: str, value: object, rules: Mapping[str, float]) -> None:
    if not isinstance(value, int | float) or not rules:
        return
    if "at_least" in rules and not rules["at_least"] <= value < math.inf:
        raise SettingsError(f"{where}: {value} must be {rules['at_least']} or more")
    if "above" in rules and not rules["above"] < value < math.inf:
        raise SettingsError(f"{where}: {value} must be more than {rules['above']}")
    if isinstance(value, int) and value > LARGEST:
        raise SettingsError(f"{where}: {value} must be {LARGEST} or less")
    if "below" in rules and not value < rules["below"]:
        raise SettingsError(f"{where}: {value} must be less than {rules['below']}")
    if "at_most" in rules and not value <= rules["at_most"]:
        raise SettingsError(f"{where}: {value} must be {rules['at_most']} or less")


def _spelled(allowed: tuple[Any, ...]) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    names[dict] = "a mapping"
    words = []
    for kind in allowed:
        if get_origin(kind) is Literal:
            words.append("one of " + ", ".join(map(str, get_args(kind))))
        elif kind is types.NoneType:
            words.append("null")
        else:
            words.append(names.get(get_origin(kind) or kind, str(kind)))
    return " or ".join(words)
