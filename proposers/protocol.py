"""What every proposer is."""

from typing import Protocol

from ledger.search import History, Proposals


class Proposer(Protocol):
    """Suggests what to try next.

    A proposer keeps nothing it cannot rebuild: the same history, count, seed and state give the
    same proposals, in this process or the next. It must not change `history`, must stay inside
    its search space, and should not repeat what `history.proposed` already holds.

    Raises whatever it likes: the controller turns that into the study's failure
    `proposer_error` with the text, never into a trial.
    """

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        """Return at most `count` proposals for numbers history.next_number onwards; fewer means
        the space is exhausted. `seed` is the study's, `state` what the last call returned."""
        ...
