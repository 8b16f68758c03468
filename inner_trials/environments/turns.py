"""Plays episodes with the policy, turn by turn, token by token: nothing is tokenised twice.

A completion is the model's tokens and, between them, the environment's, which are not learned
from. An episode ends when its environment says so, when an answer is cut off, or when the next
observation would leave no room; then it keeps the reward it had.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from inner_trials.data import DataError
from inner_trials.environments.protocol import Call, Environment, Episode
from inner_trials.environments.tool_calls import CallReader
from inner_trials.prompts import Prompt

Generate = Callable[[list[list[int]], int], list[list[int]]]
"""Answers to several contexts, each of at most so many tokens, up to the one that ends it."""


@dataclass(slots=True)
class Played:
    tokens: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """1 for the model's own tokens."""
    reward: float = 0.0
    turns: int = 0
    calls: int = 0
    failed_calls: int = 0
    note: str = ""
    """Why it is only a part: `cut off`, `no room`, or what its environment said."""
    is_over: bool = False


def play(
    environment: Environment,
    prompts: Sequence[Prompt],
    encoded: Sequence[Sequence[int]],
    tokenizer: Any,
    generate: Generate,
    *,
    max_tokens: int,
    ends: Sequence[int],
) -> list[Played]:
    """One episode for each prompt, all at once; `max_tokens` bounds each completion."""
    reader = CallReader(tokenizer, environment.tools) if environment.tools else None
    played = [Played() for _ in prompts]
    with ExitStack() as stack:
        episodes = [
            stack.enter_context(environment.start(prompt.prompt, prompt.fields))
            for prompt in prompts
        ]
        while waiting := [i for i, state in enumerate(played) if not state.is_over]:
            rooms = [max_tokens - len(played[i].tokens) for i in waiting]
            contexts = [[*encoded[i], *played[i].tokens] for i in waiting]
            answers = generate(contexts, max(rooms))
            for i, context, answer, room in zip(waiting, contexts, answers, rooms, strict=True):
                state, kept = played[i], answer[:room]
                if _say(state, kept, ends):
                    text, calls = _read(tokenizer, reader, context, kept)
                    _hear(state, episodes[i], text, calls, tokenizer, max_tokens)
    return played


def _say(state: Played, answer: list[int], ends: Sequence[int]) -> bool:
    """Whether there is anything to be answered to: the model ended it."""
    state.tokens += answer
    state.mask += [1] * len(answer)
    state.turns += 1
    state.is_over = True
    if answer[-1] not in ends:
        state.note = "cut off"
        return False
    return True


def _read(
    tokenizer: Any, reader: CallReader | None, context: list[int], answer: list[int]
) -> tuple[str, list[Call]]:
    if reader is None:
        return tokenizer.decode(answer, skip_special_tokens=True), []
    return reader.read(context, answer)


def _hear(
    state: Played,
    episode: Episode,
    text: str,
    calls: Sequence[Call],
    tokenizer: Any,
    max_tokens: int,
) -> None:
    turn = episode.answer(text, calls)
    state.reward, state.note = turn.reward, turn.note
    state.calls, state.failed_calls = (
        state.calls + len(calls),
        state.failed_calls + turn.failed_calls,
    )
    if turn.observation is None:
        return
    between = observation_tokens(tokenizer, turn.observation)
    if len(state.tokens) + len(between) >= max_tokens:
        state.note = "no room"
        return
    state.tokens += between
    state.mask += [0] * len(between)
    state.is_over = False


def observation_tokens(
    tokenizer: Any, observation: str | Sequence[Mapping[str, str]]
) -> list[int]:
    """What stands between an answer that was ended and the next one.

    Raises:
        DataError: the template does not write a longer conversation as the shorter one and more.
    """
    said: dict[str, Any] = {"role": "assistant", "content": "0"}
    if isinstance(observation, str):
        later: list[Mapping[str, str]] = [{"role": "user", "content": observation}]
    else:
        later = list(observation)
        called = [{"name": message["name"], "arguments": {}} for message in later]
        said["content"] = ""
        said["tool_calls"] = [{"type": "function", "function": call} for call in called]
    asked = [{"role": "user", "content": "0"}, said]
    before = tokenizer.apply_chat_template(asked, tokenize=False)
    after = tokenizer.apply_chat_template(
        [*asked, *later], tokenize=False, add_generation_prompt=True
    )
    # The model ends its answer with this token; what the template puts behind it comes between.
    ended, token, _ = before.rpartition(tokenizer.eos_token)
    before = ended + token or before
    if not after.startswith(before):
        raise DataError(
            "base: its chat template changes earlier turns when a later one comes; environments"
            " need one that only adds"
        )
    return list(tokenizer(after[len(before) :], add_special_tokens=False)["input_ids"])
