"""A language model that changes the program: one patch of a parent's source for each trial."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ledger.errors import ArlError, InvalidInput
from ledger.search import (
    FinishedTrial,
    History,
    ModelCall,
    PendingTrial,
    Price,
    Proposal,
    Proposals,
)
from ledger.states import Reason
from proposers.chat import Chat
from proposers.chat_answer import Answer
from proposers.chat_conversation import converse, worst_price
from proposers.chat_options import LLMDiffOptions
from proposers.chat_tokens import Messages, most_tokens_of
from proposers.host import PATCH_BYTES, number_rng
from proposers.llm_answers import split_patch
from proposers.parents import Scored, baseline, best, choose_parent, scored
from proposers.patches import PatchRefused, apply_patch
from proposers.prompt_data import one_line, visible
from proposers.prompt_history import best_trials, number_text, why
from proposers.prompts import PATCH_VERSION, Parent, patch_messages

CHANGES_SHOWN: Final = 8
CHANGE_CHARS: Final = 2000
ROOM_SPARE: Final = 2000
"""Tokens that another parent's prompt may have more than the best one's, beside a quarter."""


class LLMDiff:
    """Search by patches; see proposers.protocol."""

    def __init__(
        self,
        mutable: Sequence[str],
        required_calls: Sequence[str],
        options: LLMDiffOptions,
        chat: Chat,
    ) -> None:
        if not mutable:
            raise InvalidInput(
                "program.mutable: proposer llm_diff changes these files and there are none; name "
                "them, or write proposer.name: llm"
            )
        self._mutable = mutable
        self._required_calls = required_calls
        self._options = options
        self._chat = chat

    def price(self, history: History, *, count: int) -> Price:
        one = worst_price(self._options, self._room(history))
        return Price(tokens=count * one.tokens, cost_usd=count * one.cost_usd)

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        items: list[Proposal] = []
        calls: list[ModelCall] = []
        room = self._room(history) if count else 0
        for number in range(history.next_number, history.next_number + count):
            rng = number_rng(seed, number)
            parent = choose_parent(history, number, self._options, rng)
            files = self._files(history, parent.candidate_id)
            draft = _Draft(files, self._mutable, self._required_calls, parent, items)
            talk = converse(
                self._chat,
                self._options,
                self._messages(history, parent, files, items, room),
                draft.judge,
                version=PATCH_VERSION,
                rng=rng,
            )
            calls += talk.calls
            if talk.unanswered is not None:
                return Proposals(
                    items=items,
                    state=state,
                    calls=calls,
                    retry_after_s=talk.unanswered.retry_after_s,
                    waits_for=talk.unanswered.waits_for,
                )
            items.append(draft.proposal())
        return Proposals(items=items, state=state, calls=calls)

    def close(self) -> None:
        self._chat.close()

    def _files(self, history: History, candidate_id: str) -> Mapping[str, str]:
        return {} if history.sources is None else history.sources(candidate_id)

    def _room(self, history: History) -> int:
        """Tokens of a prompt, at most: what the best parent's takes and some more, so that the
        price of a call is known before its parents are drawn."""
        parent = best(scored(history))
        files = self._files(history, parent.candidate_id)
        most = self._options.prompt_tokens
        needed = most_tokens_of(self._messages(history, parent, files, (), most))
        return min(most, needed + needed // 4 + ROOM_SPARE)

    def _messages(
        self,
        history: History,
        parent: Scored,
        files: Mapping[str, str],
        made: Sequence[Proposal],
        room: int,
    ) -> Messages:
        return patch_messages(
            history,
            Parent(
                candidate_id=parent.candidate_id,
                what=_what(parent, history),
                files=files,
            ),
            changes=[*_proposed(made), *self._changes(history)],
            required_calls=self._required_calls,
            room=room,
        )

    def _changes(self, history: History) -> Iterator[tuple[str, str]]:
        """What was changed in the trials that run, the best ones and the latest."""
        shown: dict[str, FinishedTrial | PendingTrial] = {}
        chosen: tuple[FinishedTrial | PendingTrial, ...] = (
            *history.pending[-3:],
            *best_trials(history)[:3],
            *history.finished[-4:][::-1],
        )
        for trial in chosen:
            shown.setdefault(trial.candidate_id, trial)
        for candidate_id, trial in list(shown.items())[:CHANGES_SHOWN]:
            parent = baseline(history).candidate_id
            label = f"change of trial #{trial.number}, running now"
            if isinstance(trial, FinishedTrial):
                parent = trial.parent_id or parent
                value = (
                    "no score"
                    if trial.value is None
                    else number_text(trial.value, history.noise_floor)
                )
                label = f"change of trial #{trial.number}, {value}, {why(trial)}"
            text = self._difference(history, parent, candidate_id)
            if text:
                yield label, text

    def _difference(self, history: History, parent: str, candidate_id: str) -> str:
        """A unified diff, cut; nothing where a source cannot be read any more."""
        try:
            before = self._files(history, parent)
            after = self._files(history, candidate_id)
        except ArlError:
            return ""
        lines: list[str] = []
        for path in sorted(before.keys() & after.keys()):
            lines += difflib.unified_diff(
                before[path].splitlines(),
                after[path].splitlines(),
                f"a/{path}",
                f"b/{path}",
                lineterm="",
                n=1,
            )
        text = "\n".join(lines)
        return text if len(text) <= CHANGE_CHARS else f"{text[:CHANGE_CHARS]}\n[…]"


def _what(parent: Scored, history: History) -> str:
    name = "the baseline" if parent.number < 0 else f"trial #{parent.number}"
    if parent.value is None:
        return name
    return f"{name}, score {number_text(parent.value, history.noise_floor)}"


def _proposed(made: Sequence[Proposal]) -> Iterator[tuple[str, str]]:
    """The patches of this very call."""
    for proposal in reversed(made):
        if proposal.patch is not None and proposal.defect is None:
            yield "change proposed just now", proposal.patch[:CHANGE_CHARS]


class _Draft:
    """A patch in the making, and the judge of a model's answers."""

    def __init__(
        self,
        files: Mapping[str, str],
        mutable: Sequence[str],
        required_calls: Sequence[str],
        parent: Scored,
        made: Sequence[Proposal],
    ) -> None:
        self._files, self._mutable, self._required_calls = files, mutable, required_calls
        self._parent = parent
        self._others = {p.patch for p in made if p.parent_id == parent.candidate_id}
        self._patch = ""
        self._words = ""
        self._refused: PatchRefused | None = None

    def judge(self, answer: Answer) -> str:
        """Whether the answer's patch can be applied to the parent; why not."""
        self._words, self._patch = split_patch(answer.text, self._mutable)
        try:
            apply_patch(
                self._files,
                self._patch,
                mutable=self._mutable,
                required_calls=self._required_calls,
            )
            if self._patch in self._others:
                raise PatchRefused(Reason.NO_CHANGE, "the same change was proposed just now")
        except PatchRefused as refused:
            self._refused = refused
            said = one_line(str(refused), 2000)
            return (
                f"Your patch was refused: {said}.\n"
                f"Answer again with the whole change, to the files as they are shown."
            )
        self._refused = None
        return ""

    def proposal(self) -> Proposal:
        """The patch, or what is left of it: a proposal that can be no candidate."""
        patch = self._patch.encode("utf-8", "replace")[: PATCH_BYTES - 4].decode("utf-8", "ignore")
        return Proposal(
            params=self._parent.params,
            parent_id=self._parent.candidate_id or None,
            patch=patch,
            rationale=visible(self._words),
            defect=None if self._refused is None else self._refused.reason,
            defect_detail="" if self._refused is None else str(self._refused),
        )
