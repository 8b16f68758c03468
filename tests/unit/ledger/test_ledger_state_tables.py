"""Every legal move of every kind, written out by hand; whatever is not written is illegal."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product

import pytest

from ledger.errors import IllegalTransition
from ledger.states import (
    ATTEMPT_TERMINAL,
    ATTEMPT_TRANSITIONS,
    CANDIDATE_TRANSITIONS,
    CONVERSION_TRANSITIONS,
    FAMILY_TRANSITIONS,
    STUDY_TERMINAL,
    STUDY_TRANSITIONS,
    TRIAL_TERMINAL,
    TRIAL_TRANSITIONS,
    AttemptState,
    CandidateState,
    ConversionState,
    FamilyState,
    StudyState,
    TrialState,
    check_transition,
)

STUDY = """
submitted preparing | submitted imported | submitted failed | submitted cancelled
preparing running | preparing paused | preparing failed | preparing cancelled
running paused | running draining | running failed | running cancelled
paused preparing | paused running | paused draining | paused replaying | paused failed
paused cancelled
draining replaying | draining paused | draining failed | draining cancelled
replaying completed | replaying paused | replaying failed | replaying cancelled
completed running | completed replaying
"""
TRIAL = """
proposed running | proposed complete | proposed failed | proposed cancelled
running evaluating | running pruned | running failed | running cancelled
evaluating deciding | evaluating failed | evaluating cancelled
deciding complete | deciding failed | deciding cancelled
"""
ATTEMPT = """
launching running | launching cancelled | launching lost
running exited | running cancelled | running lost
exited collected | exited rejected | exited cancelled | exited lost
"""
CANDIDATE = "pending kept | pending discarded | pending failed"
FAMILY = """
open passed | open refused | open inconclusive
passed awaiting_approval | passed promoted | passed declined
awaiting_approval promoted | awaiting_approval declined
"""

CONVERSION = "open servable | open refused | open failed"


def pairs(written: str) -> set[tuple[str, str]]:
    found = set()
    for line in written.strip().splitlines():
        for pair in line.split("|"):
            current, new = pair.split()
            found.add((current, new))
    return found


KINDS: list[tuple[type[StrEnum], Mapping[StrEnum, frozenset[StrEnum]], str]] = [
    (StudyState, STUDY_TRANSITIONS, STUDY),  # type: ignore[list-item]  # one table per kind
    (TrialState, TRIAL_TRANSITIONS, TRIAL),  # type: ignore[list-item]  # one table per kind
    (AttemptState, ATTEMPT_TRANSITIONS, ATTEMPT),  # type: ignore[list-item]  # as above
    (CandidateState, CANDIDATE_TRANSITIONS, CANDIDATE),  # type: ignore[list-item]  # as above
    (FamilyState, FAMILY_TRANSITIONS, FAMILY),  # type: ignore[list-item]  # as above
    (ConversionState, CONVERSION_TRANSITIONS, CONVERSION),  # type: ignore[list-item]  # as above
]


@pytest.mark.parametrize(
    ("kind", "table", "written"), KINDS, ids=lambda k: getattr(k, "__name__", "")
)
def test_exactly_the_written_moves_are_legal(
    kind: type[StrEnum], table: Mapping[StrEnum, frozenset[StrEnum]], written: str
) -> None:
    legal = pairs(written)
    assert {str(s) for pair in legal for s in pair} <= {str(s) for s in kind}
    for current, new in product(kind, kind):
        if (str(current), str(new)) in legal:
            check_transition(table, "it", current, new)  # type: ignore[type-var]  # any kind
        else:
            with pytest.raises(IllegalTransition):
                check_transition(table, "it", current, new)  # type: ignore[type-var]  # any kind


def test_what_ends_moves_no_more() -> None:
    for trial in TRIAL_TERMINAL:
        assert trial not in TRIAL_TRANSITIONS
    for attempt in ATTEMPT_TERMINAL:
        assert attempt not in ATTEMPT_TRANSITIONS
    reopened = [study for study in STUDY_TERMINAL if study in STUDY_TRANSITIONS]
    assert reopened == [StudyState.COMPLETED]


def test_every_state_that_leads_nowhere_is_terminal() -> None:
    assert {s for s in TrialState if s not in TRIAL_TRANSITIONS} == TRIAL_TERMINAL
    assert {s for s in AttemptState if s not in ATTEMPT_TRANSITIONS} == ATTEMPT_TERMINAL
    assert {s for s in StudyState if s not in STUDY_TRANSITIONS} < STUDY_TERMINAL
