"""Makes text that others wrote safe to show: nothing in it moves a cursor or hides a letter."""

import unicodedata
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
