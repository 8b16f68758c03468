"""How many tokens a text has, as long as no server has counted them."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Messages: TypeAlias = Sequence[Mapping[str, str]]
"""`role` and `content` of each, as the chat API has them."""

_WORDS: Final = re.compile(rb"[A-Za-z ]")
PER_MESSAGE: Final = 8
"""Tokens that a chat template puts around a message, at most."""
PER_REQUEST: Final = 64


def most_tokens(text: str) -> int:
    """No tokenizer in use makes more of it: letters and spaces come at least in pairs, while
    digits, signs and the bytes of other scripts may be a token each."""
    data = text.encode("utf-8", "replace")
    in_words = len(_WORDS.findall(data))
    return len(data) - in_words + math.ceil(in_words / 2)


def most_tokens_of(messages: Messages) -> int:
    return PER_REQUEST + sum(PER_MESSAGE + most_tokens(m["content"]) for m in messages)


def likely_tokens(text: str) -> int:
    """About right for English and code."""
    return math.ceil(len(text.encode("utf-8", "replace")) / 4)
