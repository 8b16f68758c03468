"""What one attack of the corpus is: data; tests.hostile.corpus_study puts it through a study."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from ledger.states import Reason

TRUTH: Final = 0.3
"""What the model of an attack is worth, unless its entry says otherwise: it is a bad one."""
BASELINE: Final = 0.5
HONEST: Final = 0.6
FORGED: Final = 0.97
"""What attacks claim: no honest model of the corpus is worth as much."""
SCORED: Final[frozenset[Reason]] = frozenset()


class Shape(StrEnum):
    """Which study an attack is put through."""

    WEIGHTS = "weights"
    """Training programs beside honest ones; a frozen evaluator loads what they left."""
    LIMITS = "limits"
    """The same with little time, memory and disk."""
    DOCUMENTS = "documents"
    """The attack is what an evaluator writes as its score."""
    ANSWERS = "answers"
    """The attack answers the evaluator's questions."""
    REPLAY = "replay"
    """A study of its own with a gate: it looks good when screened and is something else later."""
    MODEL = "model"
    """A model's files, loaded by the built-in evaluator exact_match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    name: str
    tries: str
    """What it tries, for the table."""
    breaks: str
    """The rule it goes against."""
    code: str = ""
    """The program; Python after tests.hostile.corpus_programs.PRELUDE unless `language` says
    shell. Where it gets at something that it must not have, it prints ESCAPED and what."""
    language: Literal["python", "sh"] = "python"
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Put into the program's source and, by the attack's own trial, into its model."""
    saves: bool = True
    """Whether a model worth TRUTH is saved after the code."""
    ends: frozenset[Reason] = SCORED
    """Why its trial may fail. Empty: it must be scored, as what its model is worth."""
    may_be_scored: bool = False
    """With `ends`: whether a true score is as good."""
    truth: float = TRUTH
    shape: Shape = Shape.WEIGHTS
    times: int = 1
    """How many trials of it there are, one after all others: for what one leaves for the next."""
    hurts: str = ""
    """Why it is not run without a sandbox and counted as missed there: it would succeed, and do
    harm or send a packet."""
    slow: bool = False

    @property
    def fails_only(self) -> bool:
        return bool(self.ends) and not self.may_be_scored


def ends(*reasons: Reason) -> frozenset[Reason]:
    return frozenset(reasons)
