"""What a check is, and what it may find."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from targets.promises import Subject

if TYPE_CHECKING:
    from targets.conformance.stage import Stage


class Outcome(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    NOT_PROMISED = "not promised"
    UNCHECKED = "cannot be checked here"


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of looking: holds when there is no problem."""

    problems: tuple[str, ...]
    """Each one sentence without a full stop, with the numbers seen."""
    seen: str = ""
    """What was seen where it holds: a few words."""


class Unchecked(Exception):
    """This check says nothing here; its text is why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One small experiment on a target."""

    name: str
    claim: str
    """What holds if it holds: one sentence without a full stop."""
    run: Callable[["Stage"], Judged]
    """Launches real attempts and judges them. Raises Unchecked."""
    subjects: tuple[Subject, ...] = ()
    """What the target must promise for this to be tried; () is the contract itself."""
    alone: bool = False
    """It measures or loads the machine: nothing else runs meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found on one target."""

    check: str
    claim: str
    outcome: Outcome
    detail: str
    """The problems; or what was seen; or the target's own words; or why it is unchecked."""
    kept_by: str = ""
    """A targets.promises.Keeper, where the target said; else empty."""
    took_s: float = 0.0


def judged(problems: list[str], seen: str = "") -> Judged:
    return Judged(tuple(problems), seen)
