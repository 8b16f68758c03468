"""Reads what an evaluator wrote on its score channel. Strict: anything odd is not a score."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from inner_trials.contract import SCORE_BYTES

ITEMS_CAP: Final = 1_000_000
"""More per-item scores than this are refused."""

MAGNITUDE_CAP: Final = 1e60
"""Statistics square squares of scores; beyond this they would overflow."""

_QUOTED_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRange:
    """The values a metric may have, both ends included; None: unbounded."""

    low: float | None = None
    high: float | None = None
    resolution: float = 0.0
    """The smallest difference that means anything; the noise floor is never below it."""


@dataclass(frozen=True, slots=True)
class Scores:
    """One accepted score document."""

    value: float
    """The objective metric."""
    metrics: Mapping[str, float]
    """Every declared metric, in the order of declaration."""
    items: tuple[float, ...] = ()
    """Per-item scores of the objective; empty when the evaluator gave none."""


@dataclass(frozen=True, slots=True)
class ScoreRefused:
    """Why what the evaluator wrote is not a score: one sentence, safe to print."""

    reason: str


class _RefusedError(Exception):
    """Carries the reason out of the parser's call-backs."""


def parse_scores(
    raw: bytes, *, metrics: Mapping[str, MetricRange], objective: str
) -> Scores | ScoreRefused:
    """The scores in `raw`, or why there are none. Never raises for anything `raw` may hold.

    Args:
        raw: what the evaluator wrote; a longer text than SCORE_BYTES is refused unread.
        metrics: the declared metrics, the objective among them; without any, the objective
            alone is expected, unbounded.
    """
    declared = metrics or {objective: MetricRange()}
    try:
        document = _read_object(raw)
        values = _read_metrics(document, declared)
        if objective not in values:
            raise _RefusedError(f"the objective {objective!r} is not a declared metric")
        items = _read_items(document)
    except _RefusedError as refused:
        return ScoreRefused(str(refused))
    return Scores(values[objective], values, items)


def _read_object(raw: bytes) -> dict[str, object]:
    if len(raw) > SCORE_BYTES:
        raise _RefusedError(f"the score document is longer than {SCORE_BYTES} bytes")
    if not raw.strip():
        raise _RefusedError("the evaluator wrote no score document on its score channel")
    document = _decoded(raw)
    if not isinstance(document, dict):
        raise _RefusedError(f"the score document is {_kind(document)}, but must be one object")
    for key in document:
        if key not in ("metrics", "items"):
            raise _RefusedError(
                f"the score document has the key {_quoted(key)}, but only metrics and items"
                ' are known; write {"metrics": {"NAME": NUMBER}}'
            )
    return document


def _decoded(raw: bytes) -> object:
    try:
        found: object = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError:
        raise _RefusedError("the score document is not UTF-8") from None
    except RecursionError:
        raise _RefusedError("the score document is nested too deeply") from None
    except ValueError as error:
        raise _RefusedError(f"the score document is not JSON: {error}") from None
    return found


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _RefusedError(f"the score document repeats the key {_quoted(key)}")
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _RefusedError(f"the score document holds {name}, which is not a finite number")


def _read_metrics(
    document: Mapping[str, object], declared: Mapping[str, MetricRange]
) -> dict[str, float]:
    given = document.get("metrics")
    if not isinstance(given, dict):
        raise _RefusedError('the score document lacks {"metrics": {...}}')
    for name in given:
        if name not in declared:
            raise _RefusedError(f"metrics.{_quoted(name)} is not a declared metric")
    values = {}
    for name, allowed in declared.items():
        if name not in given:
            raise _RefusedError(f"metrics.{name} is declared but missing")
        values[name] = _read_number(f"metrics.{name}", given[name], allowed)
    return values


def _read_items(document: Mapping[str, object]) -> tuple[float, ...]:
    given = document.get("items", [])
    if not isinstance(given, list):
        raise _RefusedError(f"items is {_kind(given)}, but must be a list of numbers")
    if len(given) > ITEMS_CAP:
        raise _RefusedError(f"items has {len(given)} entries, but at most {ITEMS_CAP} are allowed")
    # An item's score need not lie in the mean's range, but it must be an ordinary number.
    return tuple(_read_number(f"items[{i}]", item, MetricRange()) for i, item in enumerate(given))


def _read_number(name: str, value: object, allowed: MetricRange) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _RefusedError(f"{name} is {_kind(value)}, but must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _RefusedError(f"{name} is not finite")
    if abs(number) > MAGNITUDE_CAP:
        raise _RefusedError(f"{name} is {number}, larger than any score may be")
    if allowed.low is not None and number < allowed.low:
        raise _RefusedError(f"{name} is {number}, below its declared lowest value {allowed.low}")
    if allowed.high is not None and number > allowed.high:
        raise _RefusedError(f"{name} is {number}, above its declared highest value {allowed.high}")
    return number


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", str: "a string", list: "a list", dict: "an object"}
    return names.get(type(value), "a number")


def _quoted(text: str) -> str:
    """A key as a person may safely see it: printable ASCII, cut."""
    cut = text if len(text) <= _QUOTED_CHARS else text[:_QUOTED_CHARS] + "…"
    return ascii(cut)
