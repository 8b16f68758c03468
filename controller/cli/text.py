"""Makes text that others wrote safe to print: nothing in it moves a cursor or hides a letter."""

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

_HARMFUL: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Control, format (also bidirectional, zero-width), private, surrogate, separators."""


def plain(text: str, *, keep: str = "") -> str:
    """`text` with every character that a terminal might obey written out as `\\x1b` or `\\u202e`.

    `keep` names exceptions, such as the newline of a log.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(c) if _is_harmful(c) and c not in keep else c for c in text)


def _is_harmful(character: str) -> bool:
    return not character.isprintable() and unicodedata.category(character) in _HARMFUL


def _shown(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clipped(text: str, length: int) -> str:
    """At most `length` characters, safe, with an ellipsis where something is missing."""
    safe = plain(text)
    return safe if len(safe) <= length else f"{safe[: length - 1]}…"


def iso(seconds: float | None) -> str | None:
    """ISO 8601 in UTC with its offset, to the millisecond."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


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


def size(count: float) -> str:
    """Like 4.2 GiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def params(values: Mapping[str, object], length: int = 60) -> str:
    """`lr=0.001 depth=4`, clipped."""
    parts = [f"{k}={number(v) if isinstance(v, float) else v}" for k, v in values.items()]
    return clipped(" ".join(parts) or "(none)", length)
