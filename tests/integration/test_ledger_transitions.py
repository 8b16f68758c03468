"""The database applies exactly the legal moves: every pair of states, tried for real."""

from itertools import product

import pytest
from sqlalchemy import text

from ledger import reads
from ledger.database import Ledger
from ledger.entries import AttemptEnded, FamilyMoved, StudyMoved, TrialEnded
from ledger.errors import IllegalTransition
from ledger.records import PausedBy, Split, TrialKind
from ledger.states import (
    ATTEMPT_TRANSITIONS,
    FAMILY_TRANSITIONS,
    STUDY_TRANSITIONS,
    TRIAL_TRANSITIONS,
    AttemptState,
    FamilyState,
    Reason,
    StudyState,
    TrialState,
)
from tests.ledger_builders import Driven, driven


def put(ledger: Ledger, table: str, row_id: str, state: str) -> None:
    """Place a row in a state directly, so that every pair can be tried."""
    with ledger.write() as session:
        query = text(f"UPDATE {table} SET state = :state WHERE id = :id")
        session.connection.execute(query, {"state": state, "id": row_id})


def state_of(ledger: Ledger, table: str, row_id: str) -> str:
    with ledger.read() as session:
        query = text(f"SELECT state FROM {table} WHERE id = :id")
        return str(session.connection.execute(query, {"id": row_id}).scalar_one())


def attempt(study: Driven, current: str, new: str, sure: str) -> None:
    """Record a move that claims `current`, over a row that is in state `sure`."""
    put(study.ledger, "attempts", study.train(0), sure)
    study.record(
        AttemptEnded(
            attempt_id=study.train(0),
            current=AttemptState(current),
            new=AttemptState(new),
            reason=Reason.ATTEMPT_LOST,
            detail="",
        )
    )


def trial(study: Driven, current: str, new: str, sure: str) -> None:
    put(study.ledger, "trials", study.trial(0), sure)
    study.record(
        TrialEnded(
            trial_id=study.trial(0),
            candidate_id=study.candidate(0),
            trial_kind=TrialKind.BASELINE,
            current=TrialState(current),
            new=TrialState(new),
            reason=Reason.CRASHED,
            detail="",
            finish_seq=1,
        )
    )


def study_move(study: Driven, current: str, new: str, sure: str) -> None:
    put(study.ledger, "studies", "s1", sure)
    pauses = new == StudyState.PAUSED
    study.record(
        StudyMoved(
            current=StudyState(current),
            new=StudyState(new),
            paused_by=PausedBy.OPERATOR if pauses else None,
        )
    )


def family(study: Driven, current: str, new: str, sure: str) -> None:
    put(study.ledger, "families", "s1-f1", sure)
    study.record(
        FamilyMoved(
            family_id="s1-f1",
            current=FamilyState(current),
            new=FamilyState(new),
            reason=Reason.PASSED,
            evidence={},
        )
    )


MOVES = {
    "attempts": (attempt, AttemptState, ATTEMPT_TRANSITIONS, "s1-t0-train0"),
    "trials": (trial, TrialState, TRIAL_TRANSITIONS, "s1-t0"),
    "studies": (study_move, StudyState, STUDY_TRANSITIONS, "s1"),
    "families": (family, FamilyState, FAMILY_TRANSITIONS, "s1-f1"),
}


@pytest.mark.parametrize("table", MOVES)
def test_every_pair_of_states(ledger: Ledger, table: str) -> None:
    move, states, transitions, row_id = MOVES[table]
    study = driven(ledger)
    study.record(study.proposed(0, kind=TrialKind.BASELINE), study.launching(0), study.family())
    for current, new in product(states, states):
        if new in transitions.get(current, frozenset()):  # type: ignore[attr-defined]
            move(study, current, new, sure=current)
            assert state_of(ledger, table, row_id) == new
        else:
            with pytest.raises(IllegalTransition):
                move(study, current, new, sure=current)
            assert state_of(ledger, table, row_id) == current


@pytest.mark.parametrize("table", MOVES)
def test_a_legal_move_from_a_state_the_row_is_not_in(ledger: Ledger, table: str) -> None:
    """Two writers saw the same state; the second one's move must not apply."""
    move, _, transitions, row_id = MOVES[table]
    study = driven(ledger)
    study.record(study.proposed(0, kind=TrialKind.BASELINE), study.launching(0), study.family())
    for current, allowed in transitions.items():  # type: ignore[attr-defined]
        for new in allowed:
            with pytest.raises(IllegalTransition):
                move(study, current, new, sure=new)
            assert state_of(ledger, table, row_id) == new


def test_moves_with_an_implied_state_are_guarded_too(ledger: Ledger) -> None:
    study = driven(ledger)
    study.record(study.proposed(0), study.launching(0))
    for refused in (
        study.exited(0),
        study.saved(0),
        study.decided(0, 1.0),
    ):
        with pytest.raises(IllegalTransition):
            study.record(refused)
    study.record(study.started(0))
    with pytest.raises(IllegalTransition):
        study.record(study.started(0))
    study.record(study.exited(0))
    with pytest.raises(IllegalTransition):
        study.record(study.exited(0))
    study.record(study.saved(0), study.launching(0, split=Split.SEARCH))
    with pytest.raises(IllegalTransition):
        study.record(study.decided(0, 1.0))


def test_one_wrong_row_among_many_alike_is_named(ledger: Ledger) -> None:
    study = driven(ledger)
    for number in range(4):
        study.record(study.proposed(number), study.launching(number))
    study.record(study.started(2))
    with pytest.raises(IllegalTransition, match=r"s1-t2-train0.*is running"):
        study.record(*(study.started(number) for number in range(4)))
    with pytest.raises(IllegalTransition, match="attempt s1-t3-train0 is launching"):
        study.record(study.exited(2), study.exited(3))
    with ledger.read() as session:
        live = reads.load_live(session, "s1")
    states = {a.id: a.state for a in live.attempts}
    assert states["s1-t0-train0"] is AttemptState.LAUNCHING


def test_a_chain_of_moves_fits_in_one_transaction(ledger: Ledger) -> None:
    study = driven(ledger)
    for number in range(3):
        study.record(study.proposed(number), study.launching(number))
    entries = []
    for number in range(3):
        entries += [
            study.started(number),
            study.values(number, 0, [(1, "loss", 1.0)]),
            study.exited(number),
            study.saved(number),
            study.launching(number, split=Split.SEARCH),
            study.started(number, split=Split.SEARCH),
            study.exited(number, split=Split.SEARCH),
            study.scored(number, 1.0),
            study.decided(number, 1.0),
        ]
    study.record(*entries)
    with ledger.read() as session:
        live = reads.load_live(session, "s1")
    assert [t.state for t in live.finished] == [TrialState.COMPLETE] * 3
    assert live.trials == []
    assert live.attempts == []
