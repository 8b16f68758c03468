"""A language model that chooses parameters, and what steps in where it gives nothing valid."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ledger.digests import params_digest
from ledger.errors import InvalidInput
from ledger.records import Params
from ledger.search import History, Price, Proposal, Proposals
from proposers.chat import Chat
from proposers.chat_answer import Answer
from proposers.chat_conversation import Conversation, converse, worst_price
from proposers.chat_options import LLMOptions
from proposers.chat_tokens import most_tokens, most_tokens_of
from proposers.host import number_rng
from proposers.llm_answers import RATIONALE_CHARS, Unreadable, read_params, read_proposals
from proposers.prompt_data import one_line, visible
from proposers.prompt_space import params_text, space_schema
from proposers.prompts import PARAMETERS_VERSION, parameter_messages
from proposers.protocol import Closable, Proposer
from proposers.search_space import SearchSpace, cardinality

FALLBACK_ARM: Final = "llm/fallback"
NOTHING_VALID_S: Final = 30.0
"""After which a model without a valid answer is asked again, where nothing steps in."""
MOST_AT_ONCE: Final = 20
"""Sets of parameters in one answer."""
_FAULTS: Final = 8


class LLM:
    """Search by parameters; see proposers.protocol."""

    def __init__(
        self,
        space: SearchSpace,
        options: LLMOptions,
        chat: Chat,
        fallback: Proposer | None,
    ) -> None:
        if not space:
            raise InvalidInput(
                "space: proposer llm chooses parameters and there are none; add one, or write "
                "proposer.name: llm_diff"
            )
        self._space = space
        self._size = cardinality(space)
        self._options = options
        self._chat = chat
        self._fallback = fallback

    def price(self, history: History, *, count: int) -> Price:
        wanted = self._wanted(history, count)
        if wanted == 0:
            return Price()
        messages = parameter_messages(
            history, self._space, count=wanted, room=self._options.prompt_tokens
        )
        schema = most_tokens(str(space_schema(self._space, wanted)))
        return worst_price(self._options, most_tokens_of(messages) + schema)

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        wanted = self._wanted(history, count)
        if wanted == 0:
            return Proposals(items=(), state=state)
        taken = _Taken(self._space, history, wanted)
        talk = converse(
            self._chat,
            self._options,
            parameter_messages(
                history, self._space, count=wanted, room=self._options.prompt_tokens
            ),
            taken.judge,
            version=PARAMETERS_VERSION,
            rng=number_rng(seed, history.next_number),
            schema=space_schema(self._space, wanted),
        )
        if len(taken.items) < wanted and self._steps_in(talk, taken.items):
            given = self._filled(history, taken, talk, wanted, seed, state)
        else:
            given = _given(taken, talk, wanted, state)
        if count > wanted == MOST_AT_ONCE and given.retry_after_s is None:
            return replace(given, retry_after_s=0.0)  # fewer would mean an exhausted space
        return given

    def close(self) -> None:
        self._chat.close()
        fallback: object = self._fallback
        if isinstance(fallback, Closable):
            fallback.close()

    def _wanted(self, history: History, count: int) -> int:
        """How many to ask for: no more than a finite space still has."""
        left = count if self._size is None else max(0, self._size - len(history.proposed))
        return min(count, left, MOST_AT_ONCE)

    def _steps_in(self, talk: Conversation, items: Sequence[Proposal]) -> bool:
        """Whether the fallback fills up what the model left open."""
        if self._fallback is None:
            return False
        if talk.unanswered is None:
            return True
        return not items and self._options.when_unreachable == "fallback"

    def _filled(
        self,
        history: History,
        taken: "_Taken",
        talk: Conversation,
        wanted: int,
        seed: int,
        state: bytes | None,
    ) -> Proposals:
        if self._fallback is None:
            raise ValueError("there is no fallback")
        name, items = self._options.fallback, taken.items
        why = f"the model's answer was not valid: {one_line(taken.why, 300)}"
        if talk.unanswered is not None:
            why = one_line(talk.unanswered.waits_for.partition("; next try")[0], 400)
        made = {params_digest(item.params) for item in items}
        told = replace(
            history,
            next_number=history.next_number + len(items),
            proposed=frozenset(history.proposed | made),
        )
        given = self._fallback.propose(told, count=wanted - len(items), seed=seed, state=state)
        filled = [
            replace(item, proposer=FALLBACK_ARM, rationale=f"{name} search, because {why}")
            for item in given.items
        ]
        return Proposals(
            items=[*items, *filled],
            state=given.state,
            calls=talk.calls,
            retry_after_s=given.retry_after_s,
            waits_for=given.waits_for,
        )


def _given(taken: "_Taken", talk: Conversation, wanted: int, state: bytes | None) -> Proposals:
    items = taken.items
    if len(items) >= wanted:
        return Proposals(items=items, state=state, calls=talk.calls)
    unanswered = talk.unanswered
    waits_for = f"the model gave no valid parameters: {one_line(taken.why, 300)}"
    return Proposals(
        items=items,
        state=state,
        calls=talk.calls,
        retry_after_s=NOTHING_VALID_S if unanswered is None else unanswered.retry_after_s,
        waits_for=waits_for if unanswered is None else unanswered.waits_for,
    )


class _Taken:
    """The valid proposals of a conversation, and the judge of its answers."""

    def __init__(self, space: SearchSpace, history: History, wanted: int) -> None:
        self.items: list[Proposal] = []
        self.why = ""
        """What was wrong with the last answer that gave too few."""
        self._space = space
        self._proposed = history.proposed
        self._made: set[str] = set()
        self._wanted = wanted

    def judge(self, answer: Answer) -> str:
        """Take what is valid, up to the number asked for; name what is not."""
        try:
            given = read_proposals(answer.text)
        except Unreadable as error:
            return self._again([str(error)])
        found: list[str] = []
        for place, (params, rationale) in enumerate(given, 1):
            if len(self.items) == self._wanted:
                break
            try:
                self._take(read_params(self._space, params), rationale)
            except Unreadable as error:
                found.append(f"proposal {place}: {error}")
        return self._again(found) if len(self.items) < self._wanted else ""

    def _take(self, params: Params, rationale: str) -> None:
        digest = params_digest(params)
        if digest in self._made:
            raise Unreadable("it repeats another proposal of yours")
        if digest in self._proposed:
            raise Unreadable(f"{params_text(params)} was proposed before: write another")
        self._made.add(digest)
        self.items.append(Proposal(params=params, rationale=visible(rationale)[:RATIONALE_CHARS]))

    def _again(self, found: Sequence[str]) -> str:
        missing = self._wanted - len(self.items)
        shown = [one_line(fault, 600) for fault in found[:_FAULTS]]
        shown = shown or ["There were fewer proposals in it than asked for."]
        self.why = "; ".join(shown)
        taken = f"{len(self.items)} of your proposals were taken. " if self.items else ""
        said = "".join(f"{line}\n" for line in shown)
        return f"{said}{taken}Answer with one JSON object with {missing} new proposals."
