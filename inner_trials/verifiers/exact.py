"""Exact match: the answer is one of the accepted texts, character for character."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from inner_trials.verifiers.answers import AnswerFrom, NoAnswerError, find_answers
from inner_trials.verifiers.protocol import (
    MAX_COMPLETION_CHARS,
    RIGHT,
    WRONG,
    Verdict,
    malformed,
    reference_texts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    version: ClassVar[str] = "exact/1"

    answer_from: AnswerFrom = "whole"
    ignore_case: bool = False
    ignore_spaces: bool = False
    """Any run of white space counts as one space."""

    def check(self, row: Mapping[str, Any]) -> None:
        reference_texts(row)

    def verify(self, completion: str, row: Mapping[str, Any]) -> Verdict:
        if len(completion) > MAX_COMPLETION_CHARS:
            return malformed("completion too long")
        try:
            answers = find_answers(completion, self.answer_from)
        except NoAnswerError as error:
            return malformed(str(error))
        accepted = {self._plain(text) for text in reference_texts(row)}
        return RIGHT if all(self._plain(answer) in accepted for answer in answers) else WRONG

    def _plain(self, text: str) -> str:
        plain = " ".join(text.split()) if self.ignore_spaces else text.strip()
        return plain.casefold() if self.ignore_case else plain
