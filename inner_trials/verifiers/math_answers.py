"""Math answers: the marked answer has the reference's value, however either of them is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from inner_trials.verifiers.algebra import TooLargeError, Value
from inner_trials.verifiers.answers import AnswerFrom, NoAnswerError, find_answers
from inner_trials.verifiers.latex import Collection, UnreadableError, read_answer
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
class MathAnswers:
    """Values are compared exactly. A reference that is not a value (a word, a matrix) is compared
    as text, without white space and \\text{}."""

    version: ClassVar[str] = "math/2"

    answer_from: AnswerFrom = "marked_or_whole"

    def check(self, row: Mapping[str, Any]) -> None:
        for text in reference_texts(row):
            _reference(text)

    def verify(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        if len(completion) > MAX_COMPLETION_CHARS:
            return malformed("completion too long")
        try:
            answers = find_answers(completion, self.answer_from)
        except NoAnswerError as error:
            return malformed(str(error))
        references = [_reference(text) for text in reference_texts(row)]
        try:
            right = all(_is_right(text, references) for text in answers)
        except (TooLargeError, UnreadableError) as error:
            return malformed(str(error))
        return RIGHT if right else WRONG


def _is_right(answer: str, references: "Sequence[str | Value | Collection]") -> bool:
    """Raises TooLargeError, UnreadableError: it is no value, and no reference is that text."""
    plain = _plain(answer)
    if any(isinstance(known, str) and known == plain for known in references):
        return True
    values = [known for known in references if not isinstance(known, str)]
    return bool(values) and read_answer(answer) in values


def _reference(text: str) -> "str | Value | Collection":
    """The value of a data set's answer, or its plain text where it has none."""
    try:
        marked = find_answers(text, "marked_or_whole")[-1]
    except NoAnswerError as error:
        raise BadReferenceError(f"answer: {text[:80]!r}: {error}") from None
    try:
        return read_answer(marked)
    except (TooLargeError, UnreadableError):
        return _plain(marked)


def _plain(text: str) -> str:
    inside = text.strip().strip("$").removesuffix(".")
    for start in ("\\text{", "\\textbf{", "\\mathrm{"):
        if inside.startswith(start) and inside.endswith("}"):
            inside = inside[len(start) : -1]
    return "".join(inside.split()).replace("\\left", "").replace("\\right", "").casefold()
