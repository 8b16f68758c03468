"""What is wrong with a study file: every problem at once, each a sentence that helps."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ledger.errors import InvalidInput

_SHOWN_CHARS: Final = 60
_SECRET_FIELD: Final = re.compile(r"(^|\.)secret$")
_SECRET_NAME: Final = re.compile(r'"ARL_SECRET_[A-Z0-9_]*"')
_HIDES_KEY: Final = re.compile(r"//[^/\s]*@|://\S*[?#]|://[^/\s:\]]*:(?!\d{1,5}([/\"…]|$))")
"""An address with a user, a query, or something else than a port where a port belongs."""
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to change."""

    field: str
    """Where it is in the file, like `space.learning_rate.low`; empty for the file itself."""
    rule: str
    """What must hold."""
    remedy: str
    """What to write instead."""
    value: str = ""
    """What was written, as shown by `shown`; empty where nothing was, and where it may be a secret
    that stands where its name belongs."""

    def __post_init__(self) -> None:
        if _SECRET_FIELD.search(self.field) and not _SECRET_NAME.fullmatch(self.value):
            object.__setattr__(self, "value", "")

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.field, self.value, self.rule) if part)
        return f"{where}; {self.remedy}"


class StudyRefused(InvalidInput):
    """The study file cannot be accepted; `problems` lists why."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def shown(value: object) -> str:
    """A value for a message: as JSON writes it, short, on one line, nothing unprintable. Empty for
    an address that may hold a key: messages are kept, and sent on."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    if _HIDES_KEY.search(text):
        return ""
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def path(*parts: str | int) -> str:
    """`space.lr.choices[2]` from its parts."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text
