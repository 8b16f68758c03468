"""Several proposers as one: each proposal is made by one of them, its arm."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, cast

from ledger.errors import ProposerFailed
from ledger.search import History, ModelCall, Price, Proposal, Proposals
from proposers.host import ask
from proposers.hybrid_arms import Arm, signature
from proposers.hybrid_bandit import Bandit
from proposers.hybrid_options import HybridOptions
from proposers.hybrid_stall import Turns
from proposers.hybrid_state import (
    MOST_FAILURES,
    ArmState,
    HybridState,
    read_state,
    write_state,
)
from proposers.hybrid_told import find_patched, tell
from proposers.protocol import Closable, PricedProposer
from proposers.search_space import SearchSpace

log = logging.getLogger("arl.proposers")

FAILED_AGAIN_S: Final = 1.0
"""Where no other arm is left, one that failed is asked again after so long, doubling."""
WHY_CHARS: Final = 500


class Chooser(Protocol):
    """Says which arm makes the next proposal, by the history, the seed and the state alone."""

    def begin(self, history: History, seed: int, state: HybridState) -> None:
        """Before the first choice of a call."""
        ...

    def choose(self, number: int, able: Collection[int], state: HybridState) -> int:
        """The place of one of the `able` arms, for search proposal `number`."""
        ...


@dataclass(slots=True)
class _Batch:
    """One call in the making."""

    history: History
    seed: int
    state: HybridState
    left: int
    """Proposals that nobody is to make yet."""
    able: set[int]
    """Arms that may be asked, and were not."""
    wanted: dict[int, int] = field(default_factory=dict)
    items: list[Proposal] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)
    waits: list[tuple[float, str]] = field(default_factory=list)
    has_more: bool = False
    """Whether an arm that was asked could have given more."""


class Hybrid:
    """See proposers.protocol. Its state holds the arms' states."""

    def __init__(
        self, arms: Sequence[Arm], search_space: SearchSpace, options: HybridOptions
    ) -> None:
        self._arms = arms
        self._labels = [arm.label for arm in arms]
        self._space = search_space
        self._patched = any(arm.registered.writes_patches for arm in arms)
        self._chooser: Chooser = (
            Turns(arms, options) if options.mode == "stall" else Bandit(arms, options)
        )
        self._is_closed = False

    def price(self, history: History, *, count: int) -> Price:
        """Of all arms together: where one gives nothing, the others are asked in its place."""
        prices = [
            cast(PricedProposer, arm.proposer).price(
                tell(history, arm, (), patched=self._patched), count=count
            )
            for arm in self._arms
            if arm.registered.asks_models
        ]
        return Price(
            tokens=sum(price.tokens for price in prices),
            cost_usd=sum(price.cost_usd for price in prices),
        )

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        book = read_state(state, self._labels)
        if count <= 0:
            return Proposals(items=(), state=state)
        self._chooser.begin(history, seed, book)
        able = {n for n, arm in enumerate(book.arms) if arm.is_able and self._may(history, n)}
        rested = {n for n in able if book.arms[n].rests_until <= history.next_number}
        batch = _Batch(history, seed, book, count, set(rested))
        self._serve(batch)
        if batch.left:
            batch.able = able - rested
            self._serve(batch)
        return self._given(batch, count)

    def close(self) -> None:
        self._is_closed = True
        for arm in self._arms:
            if isinstance(arm.proposer, Closable):
                arm.proposer.close()

    def _may(self, history: History, place: int) -> bool:
        return history.may_ask_models or not self._arms[place].registered.asks_models

    def _serve(self, batch: _Batch) -> None:
        """Share out what nobody is to make yet, and ask. Models go first: what they are asked was
        priced without knowing of the others."""
        self._share(batch)
        while batch.wanted:
            self._ask(batch, min(batch.wanted, key=self._rank))
            self._share(batch)

    def _rank(self, place: int) -> tuple[bool, int]:
        return not self._arms[place].registered.asks_models, place

    def _share(self, batch: _Batch) -> None:
        """Choose arms for what nobody is to make yet, one proposal after the other."""
        while batch.left and batch.able:
            planned = sum(batch.wanted.values())
            number = batch.history.next_number + len(batch.items) + planned
            place = self._chooser.choose(number, batch.able, batch.state)
            batch.wanted[place] = batch.wanted.get(place, 0) + 1
            batch.left -= 1

    def _ask(self, batch: _Batch, place: int) -> None:
        """Ask one arm for its share; what it does not give is shared out again."""
        arm, book = self._arms[place], batch.state.arms[place]
        wanted = batch.wanted.pop(place)
        batch.able.discard(place)
        try:
            given = ask(
                arm.proposer,
                tell(batch.history, arm, batch.items, patched=self._patched),
                space=self._space,
                count=wanted,
                seed=batch.seed,
                state=book.state,
            )
        except ProposerFailed as error:
            if self._is_closed:
                raise
            self._note_failure(batch, arm, book, str(error))
            batch.left += wanted
            return
        book.failures, book.rests_until, book.why = 0, 0, ""
        book.state = given.state
        book.given += len(given.items)
        book.usd += sum(call.cost_usd for call in given.calls)
        batch.items += [self._signed(batch.history, arm, item) for item in given.items]
        batch.calls += given.calls
        batch.left += wanted - len(given.items)
        if given.retry_after_s is not None:
            batch.waits.append((given.retry_after_s, f"{arm.label}: {given.waits_for}"))
        elif len(given.items) < wanted:
            book.is_done = True
        else:
            batch.has_more = True

    def _note_failure(self, batch: _Batch, arm: Arm, book: ArmState, why: str) -> None:
        book.failures += 1
        book.rests_until = batch.history.next_number + 2**book.failures
        book.why = why[:WHY_CHARS]
        if book.failures >= MOST_FAILURES:
            log.warning(
                "hybrid: arm %s failed %d times and is asked no more: %s",
                arm.label,
                book.failures,
                book.why,
            )
            return
        log.warning("hybrid: arm %s failed: %s", arm.label, book.why)
        again_s = FAILED_AGAIN_S * 2 ** (book.failures - 1)
        batch.waits.append((again_s, f"{arm.label} failed: {book.why}"))

    def _signed(self, history: History, arm: Arm, item: Proposal) -> Proposal:
        """The proposal under its arm's name. Parameters alone are tried on the best patch."""
        item = replace(item, proposer=signature(arm, item.proposer))
        if not self._patched or item.patch is not None or item.defect is not None:
            return item
        patched = find_patched(history)
        if item.parent_id is not None or patched is None:
            return item
        return replace(item, parent_id=patched.candidate_id)

    def _given(self, batch: _Batch, count: int) -> Proposals:
        """What came together. Fewer than asked for mean the end only where every arm is done."""
        retry_after_s, waits_for = None, ""
        if len(batch.items) < count:
            if batch.has_more:
                retry_after_s = 0.0
            elif batch.waits:
                retry_after_s = min(wait_s for wait_s, _ in batch.waits)
                waits_for = "; ".join(said for _, said in batch.waits)
            elif all(arm.failures >= MOST_FAILURES for arm in batch.state.arms):
                raise ProposerFailed(
                    "every arm failed: "
                    + "; ".join(
                        f"{label}: {arm.why}"
                        for label, arm in zip(self._labels, batch.state.arms, strict=True)
                    )
                )
        return Proposals(
            items=batch.items,
            state=write_state(batch.state),
            calls=batch.calls,
            retry_after_s=retry_after_s,
            waits_for=waits_for,
        )
