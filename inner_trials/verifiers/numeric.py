"""Numeric equivalence: the answer's value is the reference's, exactly or within a tolerance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from inner_trials.verifiers.answers import AnswerFrom, NoAnswerError, find_answers
from inner_trials.verifiers.numbers import NotANumberError, read_number
from inner_trials.verifiers.protocol import (
    MAX_COMPLETION_CHARS,
    RIGHT,
    WRONG,
    BadReferenceError,
    Verdict,
    malformed,
    reference_texts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """A value passes when its distance from a reference is at most the larger tolerance, bounds
    included; both are compared as fractions, so that 0.1 + 0.2 is 0.3."""

    version: ClassVar[str] = "numeric/1"

    answer_from: AnswerFrom = "marked_or_whole"
    absolute_tolerance: float = field(default=0.0, metadata={"at_least": 0.0})
    relative_tolerance: float = field(default=0.0, metadata={"at_least": 0.0})
    """A share of the reference's size."""

    def check(self, row: Mapping[str, Any]) -> None:
        for text in reference_texts(row):
            _reference(text)

    def verify(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        if len(completion) > MAX_COMPLETION_CHARS:
            return malformed("completion too long")
        try:
            values = [read_number(text) for text in find_answers(completion, self.answer_from)]
        except (NoAnswerError, NotANumberError) as error:
            return malformed(str(error))
        references = [_reference(text) for text in reference_texts(row)]
        right = all(any(self._is_near(value, r) for r in references) for value in values)
        return RIGHT if right else WRONG

    def _is_near(self, value: Fraction, reference: Fraction) -> bool:
        absolute, relative = _decimal(self.absolute_tolerance), _decimal(self.relative_tolerance)
        return abs(value - reference) <= max(absolute, relative * abs(reference))


def _decimal(value: float) -> Fraction:
    """The tolerance as it was written: 0.1 is a tenth."""
    return Fraction(repr(value))


def _reference(text: str) -> Fraction:
    """A data set's answer, which may end with its marked value as those of GSM8K do."""
    try:
        return read_number(find_answers(text, "marked_or_whole")[-1])
    except (NoAnswerError, NotANumberError) as error:
        raise BadReferenceError(f"answer: {text[:80]!r}: {error}") from None
