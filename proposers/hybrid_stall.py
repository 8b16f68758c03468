"""Taking turns: one arm until it brings nothing more, then the next."""

from collections.abc import Collection, Sequence
from itertools import islice

from ledger.search import History
from proposers.hybrid_arms import Arm
from proposers.hybrid_options import HybridOptions
from proposers.hybrid_results import each_outcome
from proposers.hybrid_state import HybridState


class Turns:
    """Whose turn it is, by what finished since it began."""

    def __init__(self, arms: Sequence[Arm], options: HybridOptions) -> None:
        self._arms = arms
        self._options = options

    def begin(self, history: History, seed: int, state: HybridState) -> None:
        """Give the turn on if the one whose it is has brought nothing for long enough, or has
        nothing left."""
        for _ in self._arms:
            is_able = state.arms[state.turn].is_able
            if is_able and not self._is_over(history, state):
                return
            state.turn = (state.turn + 1) % len(self._arms)
            state.since = len(history.finished)

    def choose(self, number: int, able: Collection[int], state: HybridState) -> int:
        """The one whose turn it is, or who comes next among those that are able."""
        count = len(self._arms)
        return next(
            place
            for place in ((state.turn + step) % count for step in range(count))
            if place in able
        )

    def _is_over(self, history: History, state: HybridState) -> bool:
        arm, options = self._arms[state.turn], self._options
        found = each_outcome(history, self._arms, since=state.since)
        own = (outcome for place, outcome in found if place == state.turn)
        outcomes = list(islice(own, max(options.patience, options.failures)))
        latest = outcomes[: options.patience]
        if len(latest) == options.patience and not any(o.is_kept for o in latest):
            return True
        latest = outcomes[: options.failures]
        is_patcher = arm.registered.writes_patches
        return len(latest) == options.failures and all(
            o.is_failure or (is_patcher and not o.is_kept) for o in latest
        )
