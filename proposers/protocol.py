"""What every proposer is."""

from typing import Protocol, runtime_checkable

from ledger.search import History, Price, Proposals


class PricedProposer(Protocol):
    """A proposer that asks language models: besides proposing, it names its worst price."""

    def price(self, history: History, *, count: int) -> Price:
        """The most that one call of propose with these arguments can use: it is reserved before
        the call, and charged when an answer is lost."""
        ...


@runtime_checkable
class Closable(Protocol):
    """A proposer that holds a process or connections."""

    def close(self) -> None:
        """Let go of them; a call under way ends soon, by raising. Idempotent, from any thread."""
        ...


class Proposer(Protocol):
    """Suggests what to try next.

    A proposer keeps nothing it cannot rebuild: the same history, count, seed and state give the
    same proposals, in this process or the next. It must not change `history`, must stay inside
    its search space, and should not repeat what `history.proposed` already holds.

    Raises whatever it likes: the controller turns that into the study's failure
    `proposer_error` with the text, never into a trial. What it waits for (an endpoint that does
    not answer) is no error: it returns no items, the calls it made, and `retry_after_s`.

    One object serves one study. Calls are made one at a time, but not always by the same thread.
    """

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        """Return at most `count` proposals for numbers history.next_number onwards; fewer means
        the space is exhausted. `seed` is the study's, `state` what the last call returned."""
        ...
