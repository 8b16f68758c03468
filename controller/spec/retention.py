"""The study file's section on what is kept of what trials saved and said."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from controller.spec.quantities import ByteCount
from controller.spec.strict import Strict

RULE: Final = "it says which checkpoints stay"
REMEDY: Final = "write all, none, last or best-K with K from 1 to 10000, like best-5"
_BEST: Final = re.compile(r"best-([1-9][0-9]{0,4})")
_MOST: Final = 10_000


class Keep(StrEnum):
    """Which checkpoints stay, besides those that something needs."""

    ALL = "all"
    NONE = "none"
    LAST = "last"
    BEST = "best"


@dataclass(frozen=True, slots=True)
class Policy:
    keep: Keep
    count: int = 0
    """Of Keep.BEST: how many."""

    def __str__(self) -> str:
        return f"best-{self.count}" if self.keep is Keep.BEST else str(self.keep)


def parse_policy(text: str) -> Policy:
    """Raises ValueError."""
    found = _BEST.fullmatch(text)
    if found is not None and int(found[1]) <= _MOST:
        return Policy(Keep.BEST, int(found[1]))
    if text in (Keep.ALL, Keep.NONE, Keep.LAST):
        return Policy(Keep(text))
    raise ValueError(f"{RULE}; {REMEDY}")


_PATTERN: Final = r"^(all|none|last|best-[1-9][0-9]{0,4})$"


def _policy(value: object) -> object:
    try:
        return str(parse_policy(value if isinstance(value, str) else ""))
    except ValueError:
        raise PydanticCustomError(
            "arl", "{rule}; {remedy}", {"rule": RULE, "remedy": REMEDY}
        ) from None


Checkpoints = Annotated[
    str,
    BeforeValidator(_policy),
    WithJsonSchema({"type": "string", "pattern": _PATTERN, "examples": ["best-5"]}),
]


class RetentionSpec(Strict):
    """What is kept of what trials saved and said. Whatever is promoted, leads, is being replayed,
    converted or approved, or is named by evidence or another study stays in any case; resume
    states go when their trial has ended."""

    checkpoints: Checkpoints = "all"
    """Which trials' models stay: all, none, last (the search trial that finished last) or best-K
    (the K best search trials by the objective)."""
    logs: ByteCount | None = None
    """Like 16MiB: so much of the logs of an ended trial is kept, its attempts together, the end
    of each; default: all that was written."""

    @property
    def policy(self) -> Policy:
        return parse_policy(self.checkpoints)
