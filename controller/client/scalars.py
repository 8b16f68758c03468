"""Numbers as libraries hold them, as JSON can carry them."""

import math
from collections.abc import Mapping
from typing import Any

from ledger.errors import InvalidInput


def plain_number(name: str, value: Any) -> float | str:
    """A Python, numpy or torch scalar as a float; one that is not finite as "nan", "inf" or
    "-inf". Raises InvalidInput for what is no single number."""
    item = getattr(value, "item", None)
    try:
        found = item() if callable(item) else value
        if isinstance(found, bool | str | bytes):
            raise TypeError(type(found).__name__)
        number = float(found)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidInput(
            f"metric {name!r}: {str(value)[:60]!r} is no number: write one, or a numpy or torch "
            "scalar"
        ) from error
    return number if math.isfinite(number) else str(number)


def plain_numbers(values: Mapping[str, Any]) -> dict[str, float | str]:
    return {name: plain_number(name, value) for name, value in values.items()}
