"""Reads what a program told, which may be anything."""

from collections.abc import Mapping

from ledger.records import Json


def texts(facts: Mapping[str, Json], name: str) -> tuple[str, ...]:
    """A list of strings; empty when it is none."""
    value = facts.get(name)
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def number(facts: Mapping[str, Json], name: str) -> int:
    value = facts.get(name)
    return value if isinstance(value, int) else 0


def real(facts: Mapping[str, Json], name: str) -> float:
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
