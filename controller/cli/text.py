"""Words and numbers as the command line prints them."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from controller.documents.plain_text import plain
from controller.documents.times import iso

_READS_OTHERWISE: Final = re.compile(r"^$|^[-+.0-9]|^(true|false)$|[\s\"']", re.IGNORECASE)
"""Text that without quotes would be a number, true or false, or several words."""

__all__ = ["clipped", "clock", "duration", "iso", "number", "params", "plain", "several", "size"]


def clipped(text: str, length: int) -> str:
    """At most `length` characters, safe, with an ellipsis where something is missing."""
    safe = plain(text)
    return safe if len(safe) <= length else f"{safe[: length - 1]}…"


def clock(seconds: float) -> str:
    """The same to the second, for a line of a log."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def duration(seconds: float | None) -> str:
    """Like 0.42s, 12s, 3m05s or 2h07m."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.2f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def number(value: float | None) -> str:
    """Six significant digits; a dash for none."""
    return "-" if value is None else f"{value:.6g}"


def several(count: object, one: str, many: str = "") -> str:
    """`1 trial`, `2 trials`; `many` where an s does not do."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def size(count: float) -> str:
    """Like 4.2 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def params(values: Mapping[str, object], length: int = 60) -> str:
    """`lr=0.001 depth=4`, clipped: as `arl trial` takes them, but for digits of numbers."""
    parts = [f"{name}={_word(value)}" for name, value in values.items()]
    return clipped(" ".join(parts) or "(none)", length)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str) and _READS_OTHERWISE.search(value) is not None:
        return json.dumps(value, ensure_ascii=False)
    return str(value)
