"""A question, and at most a few corrections of what a model answered to it."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ledger.search import ModelCall, Price
from proposers.chat import Chat, Reply, Schema, cost_usd
from proposers.chat_answer import Answer
from proposers.chat_options import ModelOptions
from proposers.chat_outcomes import Outcome
from proposers.chat_tokens import PER_MESSAGE, Messages, most_tokens

CORRECTION_TOKENS: Final = 2000
"""Of what a model is told about its answer, at most."""

Judge: TypeAlias = Callable[[Answer], str]
"""Takes what is good of an answer, and says what was wrong with it: nothing when it was right."""

_SAID: Final[Mapping[Outcome, str]] = {
    Outcome.EMPTY: "Your answer was empty.",
    Outcome.REFUSED: "You declined. This is a program's search for better settings; answer it.",
    Outcome.CUT_SHORT: "Your answer was cut off before its end: write a shorter one.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What came of one."""

    calls: tuple[ModelCall, ...]
    fault: str = ""
    """What was wrong with the last answer."""
    unanswered: Reply | None = None
    """Set when the last question was not answered by any endpoint."""


def converse(
    chat: Chat,
    options: ModelOptions,
    messages: Messages,
    judge: Judge,
    *,
    version: str,
    rng: random.Random,
    schema: Schema | None = None,
) -> Conversation:
    """Ask until the judge has nothing to say, at most options.corrections times again."""
    calls: list[ModelCall] = []
    asked = list(messages)
    fault = ""
    for _ in range(1 + options.corrections):
        reply = chat.ask(asked, version=version, rng=rng, schema=schema)
        calls += reply.calls
        if reply.answer is None:
            return Conversation(calls=tuple(calls), fault=fault, unanswered=reply)
        fault = judge(reply.answer)
        if not fault:
            break
        said = " ".join(part for part in (_SAID.get(reply.answer.outcome, ""), fault) if part)
        asked += (
            {"role": "assistant", "content": _cut(reply.answer.text, options.max_tokens)},
            {"role": "user", "content": _cut(said, CORRECTION_TOKENS)},
        )
    return Conversation(calls=tuple(calls), fault=fault)


def worst_price(options: ModelOptions, prompt_tokens: int) -> Price:
    """The most that one conversation can use, corrections included."""
    rounds = 1 + options.corrections
    grows = options.max_tokens + CORRECTION_TOKENS + 2 * PER_MESSAGE
    asked = rounds * prompt_tokens + grows * (rounds * (rounds - 1) // 2)
    made = rounds * options.max_tokens
    cost = max(cost_usd(endpoint, asked, made) for endpoint in options.endpoints)
    return Price(tokens=float(asked + made), cost_usd=cost)


def _cut(text: str, most: int) -> str:
    """The beginning of the text, of at most `most` tokens; a space where there is none."""
    while most_tokens(text) > most:
        text = text[: max(1, len(text) * most // (most_tokens(text) + 1))]
        if len(text) == 1:
            break
    return text or " "
