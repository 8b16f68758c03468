r"""Finds what a completion marks as its answer: \boxed{}, <answer></answer>, or after ####.

Every answer that is marked counts, in whatever way: a verifier accepts a completion only if all
of them are right, so that naming several values is worth nothing. One pass over the text, and
nothing that could backtrack.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

AnswerFrom: TypeAlias = Literal["marked", "marked_or_whole", "whole", "last_number"]

MAX_ANSWERS: Final = 16
MAX_ANSWER_CHARS: Final = 400

_BOX: Final = re.compile(r"\\f?boxed\s{0,4}\{")
_BRACE: Final = re.compile(r"\\?[{}]")
_OPEN_TAG: Final = "<answer>"
_CLOSE_TAG: Final = "</answer>"
_NUMBER: Final = re.compile(
    r"(?<![\w.,])[-+\u2212]?\$?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
    r"(?:[eE][-+]?[0-9]{1,4})?%?(?![0-9])",
    re.ASCII,
)


class NoAnswerError(ValueError):
    """The completion marks no answer, or marks it in a way that cannot be read."""


def find_answers(completion: str, source: AnswerFrom) -> tuple[str, ...]:
    """The answers of a completion, stripped, at least one.

    `marked_or_whole` takes the whole completion where nothing is marked; `last_number` the last
    number in it, which a guess among other numbers also passes.

    Raises:
        NoAnswerError: there is none, too many, too long, or a mark is never closed.
    """
    if source == "whole":
        found = [completion.strip()]
    else:
        found = [*_boxes(completion), *_tags(completion), *_after_hashes(completion)]
        if not found and source == "marked_or_whole":
            found = [completion.strip()]
        if not found and source == "last_number":
            found = [match[0] for match in _NUMBER.finditer(completion)][-1:]
    if not found or not all(found):
        raise NoAnswerError("no answer")
    if len(found) > MAX_ANSWERS:
        raise NoAnswerError("too many answers")
    if max(map(len, found)) > MAX_ANSWER_CHARS:
        raise NoAnswerError("answer too long")
    return tuple(dict.fromkeys(found))


def _boxes(text: str) -> Iterator[str]:
    starts = {match.end() - 1: match.end() for match in _BOX.finditer(text)}
    if not starts:
        return
    stack: list[int | None] = []
    inside = 0
    for brace in _BRACE.finditer(text, min(starts)):
        if brace[0][0] == "\\":
            continue
        at = brace.start()
        if brace[0] == "{":
            # A box within a box is part of the outer one's content.
            stack.append(starts.get(at) if not inside else None)
            inside += stack[-1] is not None
        elif stack:
            opened = stack.pop()
            if opened is not None:
                inside -= 1
                yield text[opened:at].strip()
    if inside:
        raise NoAnswerError("a box is never closed")


def _tags(text: str) -> Iterator[str]:
    at = text.find(_OPEN_TAG)
    while at >= 0:
        end = text.find(_CLOSE_TAG, at)
        if end < 0:
            raise NoAnswerError("an answer tag is never closed")
        yield text[at + len(_OPEN_TAG) : end].strip()
        at = text.find(_OPEN_TAG, end)


def _after_hashes(text: str) -> Iterator[str]:
    at = text.find("####")
    while at >= 0:
        end = text.find("\n", at)
        line = text[at:] if end < 0 else text[at:end]
        yield line.lstrip("#").strip()
        at = text.find("####", at + len(line))
