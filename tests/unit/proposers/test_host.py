"""A proposer that breaks its contract is told apart from one that works."""

from collections.abc import Callable

import pytest

from ledger.errors import InvalidInput, ProposerFailed, UnknownName
from ledger.records import Direction, Objective
from ledger.search import History, Proposal, Proposals
from proposers.host import STATE_BYTES, ask
from proposers.registry import find_proposer, read_options
from proposers.search_space import Int, SearchSpace

SPACE: SearchSpace = {"a": Int(0, 3)}
HISTORY = History(objective=Objective(metric="score", direction=Direction.MAXIMIZE), next_number=0)


class Scripted:
    """Gives whatever it was made with."""

    def __init__(self, give: Callable[[], object]) -> None:
        self._give = give

    def propose(
        self, history: History, *, count: int, seed: int, state: bytes | None
    ) -> Proposals:
        return self._give()  # type: ignore[return-value]  # what a broken proposer does


def call(give: Callable[[], object]) -> Proposals:
    return ask(Scripted(give), HISTORY, space=SPACE, count=2, seed=0, state=None)


def stop() -> object:
    raise SystemExit(3)


def divide() -> object:
    return 1 / 0


def test_good_proposals_are_handed_on_unchanged() -> None:
    given = Proposals(items=[Proposal(params={"a": 2}, rationale="why")], state=b"s")
    assert call(lambda: given) is given


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (divide, "ZeroDivisionError: division by zero"),
        (stop, "SystemExit: 3"),
        (lambda: None, "returned NoneType"),
        (lambda: Proposals(items=None), "items is NoneType"),  # type: ignore[arg-type]
        (lambda: Proposals(items=[Proposal(params={"a": 1})] * 3), "3 proposals where 2"),
        (lambda: Proposals(items=[{"a": 1}]), "proposal 1 of 1: it is dict"),  # type: ignore[list-item]
        (lambda: Proposals(items=[Proposal(params={"a": 4})]), "a: 4 is outside the integers"),
        (lambda: Proposals(items=[Proposal(params={"a": 1.0})]), "a: 1.0 is outside"),
        (lambda: Proposals(items=[Proposal(params={"a": True})]), "a: True is outside"),
        (lambda: Proposals(items=[Proposal(params={})]), "a is missing"),
        (lambda: Proposals(items=[Proposal(params={"a": 1, "b": 2})]), "b is not a parameter"),
        (lambda: Proposals(items=[Proposal(params=[1])]), "params is list"),  # type: ignore[arg-type]
        (lambda: Proposals(items=[], state="text"), "state is str"),  # type: ignore[arg-type]
        (lambda: Proposals(items=[], state=bytes(STATE_BYTES + 1)), "state has"),
        (lambda: Proposals(items=[Proposal(params={"a": 1}, patch="x" * 2**21)]), "patch"),
        (lambda: Proposals(items=[Proposal(params={"a": 1}, rationale="x" * 2**16)]), "rational"),
        (lambda: Proposals(items=[Proposal(params={"a": 1}, parent_id=7)]), "parent_id"),  # type: ignore[arg-type]
    ],
)
def test_a_broken_contract_is_the_proposers_failure(
    give: Callable[[], object], message: str
) -> None:
    with pytest.raises(ProposerFailed, match=message):
        call(give)


def test_an_interrupt_is_not_swallowed() -> None:
    def interrupt() -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(interrupt)


def test_an_unknown_proposer_lists_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"'dice' is not known; write one of .*grid.*random"):
        find_proposer("dice")


def test_an_option_nobody_reads_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"proposer\.options\.depth: grid takes only release"):
        read_options("grid", {"depth": 3})
