"""One goal of one benchmark, and what was measured of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Report: TypeAlias = Any
"""What a benchmark wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A goal is met, missed, or (None) told without one or not measured by this run."""

    what: str
    goal: str
    measured: str
    peers: str = ""
    """What others needed in the same run."""
    is_met: bool | None = None


def listed(figures: Mapping[str, float], unit: str, digits: str = ".3g") -> str:
    """By name; those of a hundred and more without decimals, as people read them."""
    texts = (f"{v:,.0f}" if abs(v) >= 100 else f"{v:{digits}}" for v in figures.values())
    return ", ".join(f"{name} {text}{unit}" for name, text in zip(figures, texts, strict=True))
