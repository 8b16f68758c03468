"""A word on the command line means one stored model: what was promoted before anything else."""

from dataclasses import replace

import pytest

from controller.serving.subjects import find_subject
from controller.spec.loading import parse_study, resolved
from ledger.database import Ledger
from ledger.entries import CandidatePromoted, TrialServed
from ledger.errors import Conflict, InvalidInput, NotFound
from ledger.records import TrialKind
from ledger.service_entries import AliasSet, IncumbentSet
from ledger.writes import append_service
from tests.ledger_builders import COMPARISON, Driven, claim, submit
from tests.served_models import STUDY

FIRST, SECOND, THIRD = "1" * 64, "2" * 64, "3" * 64


@pytest.fixture
def study(sqlite_ledger: Ledger) -> Driven:
    """Trials 0 and 1 are of one candidate, 2 of another; 3 is a duplicate that was not run."""
    submit(sqlite_ledger, spec=resolved(parse_study(STUDY)))
    made = Driven(sqlite_ledger, fence=claim(sqlite_ledger))
    made.run_study()
    for number, of, digest in ((0, 0, FIRST), (1, 0, SECOND), (2, 2, THIRD)):
        made.record(
            made.proposed(number, of_candidate=None if number == of else of),
            made.launching(number),
            made.started(number),
            made.exited(number),
            made.saved(number, digest=digest),
        )
    made.record(
        made.proposed(3),
        TrialServed(trial_id=made.trial(3), of_trial=made.trial(0), value=0.5, finish_seq=1),
    )
    return made


def promote(study: Driven, seq: int, digest: str, candidate: int = 0) -> None:
    study.record(
        CandidatePromoted(
            model="adder",
            incumbent_seq=seq,
            candidate_id=study.candidate(candidate),
            previous_id=None,
            family_id="f",
            comparison=COMPARISON,
            artifact_digest=digest,
            approver="ann",
            evidence={},
        )
    )


def found(study: Driven, word: str, name: str | None = None) -> tuple[str, str, int | None]:
    with study.ledger.read() as session:
        subject = find_subject(session, word, name)
    return subject.name, subject.artifact, subject.promotion


def test_a_candidate_is_its_latest_model_until_one_was_promoted(study: Driven) -> None:
    assert found(study, study.candidate(0)) == ("adder", SECOND, None)
    assert found(study, study.trial(0)) == ("adder", FIRST, None)
    promote(study, 1, FIRST)
    assert found(study, study.candidate(0)) == ("adder", FIRST, None)
    assert found(study, study.trial(1), "mine") == ("mine", SECOND, None)


def test_a_model_is_its_incumbent_and_a_number_an_earlier_one(study: Driven) -> None:
    promote(study, 1, FIRST)
    promote(study, 2, THIRD, candidate=2)
    assert found(study, "adder") == ("adder", THIRD, 2)
    assert found(study, "adder:1") == ("adder", FIRST, 1)
    assert found(study, "adder@1") == ("adder", FIRST, 1)
    with pytest.raises(NotFound, match="promotions 1 to 2"):
        found(study, "adder:3")
    with pytest.raises(NotFound, match="nothing was promoted as other"):
        found(study, "other:1")


def test_an_alias_names_what_is_served_and_an_unknown_one_is_told_which_there_are(
    study: Driven,
) -> None:
    promote(study, 1, FIRST)
    promote(study, 2, THIRD, candidate=2)
    with pytest.raises(NotFound, match="no alias 'staging'; it has none"):
        found(study, "adder@staging")
    named = AliasSet(
        model="adder", alias="production", revision=1, promotion=1, actor="ann", note=""
    )
    with study.ledger.write() as session:
        append_service(session, [named])
    assert found(study, "adder@production") == ("adder", FIRST, 1)
    assert found(study, "adder@production", "mine") == ("mine", FIRST, 1)
    with pytest.raises(NotFound, match="no alias 'staging'; it has production"):
        found(study, "adder@staging")
    with pytest.raises(NotFound, match="nothing was promoted as other"):
        found(study, "other@production")


def test_a_pointer_that_was_rolled_back_means_what_was_promoted_then(study: Driven) -> None:
    promote(study, 1, FIRST)
    promote(study, 2, THIRD, candidate=2)
    back = IncumbentSet(
        model="adder",
        seq=3,
        candidate_id=study.candidate(0),
        study_id=study.study_id,
        family_id=None,
        comparison=COMPARISON,
        approver="ann",
        note="back",
    )
    with study.ledger.write() as session:
        append_service(session, [back])
    assert found(study, "adder") == ("adder", FIRST, 3)
    with study.ledger.write() as session:
        append_service(session, [replace(back, seq=4, candidate_id=study.candidate(3))])
    with pytest.raises(NotFound, match="no stored model"):
        found(study, "adder")


def test_a_converted_model_is_named_by_its_trial_alone(study: Driven) -> None:
    converted = replace(study.proposed(4, of_candidate=0), trial_kind=TrialKind.CONVERSION)
    study.record(converted, study.launching(4), study.started(4), study.exited(4))
    study.record(study.saved(4, digest="4" * 64))
    assert found(study, study.candidate(0))[1] == SECOND
    assert found(study, study.trial(4))[1] == "4" * 64


def test_what_left_no_model_is_told_so(study: Driven) -> None:
    with pytest.raises(Conflict, match="none of its trials left a model"):
        found(study, study.trial(3))
    with pytest.raises(NotFound, match="write a model's name"):
        found(study, "nobody")
    with pytest.raises(InvalidInput, match="--as"):
        found(study, study.trial(0), "../x")
