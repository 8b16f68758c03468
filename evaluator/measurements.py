"""Reads what the measuring program wrote: named numbers of two models, and nothing else."""

import json
from collections.abc import Mapping
from typing import Final

from evaluator.scores import MAGNITUDE_CAP, ScoreRefused
from ledger.records import Json

SIDES: Final = ("unconverted", "converted")
MAX_BYTES: Final = 64 * 1024
NAME_CHARS: Final = 60


def parse_measurement(raw: bytes) -> Mapping[str, Json] | ScoreRefused:
    """`{"unconverted": {name: number}, "converted": {…}, "machine": {name: text or number}}`, or
    why it is none. Never raises for anything `raw` may hold."""
    if len(raw) > MAX_BYTES:
        return ScoreRefused(f"the measurement is longer than {MAX_BYTES} bytes")
    try:
        document = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return ScoreRefused("the measurement is not JSON")
    if not isinstance(document, dict) or set(document) != {*SIDES, "machine"}:
        return ScoreRefused("the measurement must hold unconverted, converted and machine")
    for side in SIDES:
        if not _are_numbers(document[side]):
            return ScoreRefused(f"the measurement's {side} must be named finite numbers")
    if document["unconverted"].keys() != document["converted"].keys():
        return ScoreRefused("the measurement must give the same figures of both models")
    if not _are_short(document["machine"]):
        return ScoreRefused("the measurement's machine must be named short texts or numbers")
    return document


def _are_numbers(found: object) -> bool:
    return isinstance(found, dict) and all(
        len(name) <= NAME_CHARS
        and not isinstance(value, bool)
        and isinstance(value, int | float)
        and -MAGNITUDE_CAP <= value <= MAGNITUDE_CAP  # also of a whole number that is no float
        for name, value in found.items()
    )


def _are_short(found: object) -> bool:
    if not isinstance(found, dict):
        return False
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    numbers = {name: value for name, value in found.items() if name not in texts}
    return _are_numbers(numbers) and all(
        len(name) <= NAME_CHARS and len(value) <= 200 for name, value in texts.items()
    )
