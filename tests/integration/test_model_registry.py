"""Pointers that go back, aliases, and who is told when two change them at once."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.registry.names import find_promotion
from controller.registry.pointers import check_standing, roll_back, set_alias
from controller.wiring import Service
from ledger import reads, registry_reads
from ledger.database import Ledger
from ledger.errors import ArlError, Conflict, InvalidInput, NotFound
from ledger.states import StudyState
from ledger.verify import verify_ledger
from tests.ledger_builders import driven, everything
from tests.promoted_models import artifact_file, numbered, position, promote


def with_promotions(ledger: Ledger, count: int = 2) -> None:
    """One study whose candidates were promoted one after the other."""
    study = driven(ledger)
    study.run_study()
    for number in range(count):
        study.whole_trial(number, 1.0)
        study.record(study.family(number + 1, candidates=(f"s1-c{number}",)))
        study.record(study.promotion(number, seq=number + 1, family=number + 1))


def back(ledger: Ledger, to: int, expected: int, note: str = "") -> None:
    with ledger.write() as session:
        target = registry_reads.get_pointer(session, "demo-model", to)
        roll_back(session, target, expected=expected, actor="ann", note=note)


def alias(ledger: Ledger, promotion: int | None, expected: int | None) -> None:
    with ledger.write() as session:
        set_alias(
            session,
            model="demo-model",
            alias="production",
            promotion=promotion,
            expected=expected,
            actor="ann",
            note="",
        )


def test_a_roll_back_is_a_new_position_with_who_and_why(ledger: Ledger) -> None:
    with_promotions(ledger)
    back(ledger, 1, 2, "answers too long")
    with ledger.read() as session:
        found = reads.list_incumbents(session, "demo-model")
        origin = registry_reads.origin_of(session, found[0])
    assert [(i.seq, i.candidate_id, i.rolled_back_to) for i in found] == [
        (3, "s1-c0", 1),
        (2, "s1-c1", None),
        (1, "s1-c0", None),
    ]
    assert (found[0].approver, found[0].note, origin.seq) == ("ann", "answers too long", 1)
    assert verify_ledger(ledger, None) == []


def test_a_roll_back_that_saw_another_incumbent_changes_nothing(ledger: Ledger) -> None:
    with_promotions(ledger)
    before = everything(ledger)
    for to, expected, why in ((1, 1, "number 2 now"), (2, 2, "already"), (7, 2, "no promotion")):
        with pytest.raises((Conflict, NotFound), match=why):
            back(ledger, to, expected)
    assert everything(ledger) == before


def test_an_alias_follows_what_is_said_and_keeps_its_history(ledger: Ledger) -> None:
    with_promotions(ledger)
    alias(ledger, 2, None)
    alias(ledger, 1, 2)
    with ledger.read() as session:
        assert find_promotion(session, "demo-model@production").seq == 1
        assert [a.promotion for a in registry_reads.list_aliases(session)] == [1]
    alias(ledger, None, 1)
    with ledger.read() as session:
        assert registry_reads.list_aliases(session) == []
        history = registry_reads.alias_history(session, "demo-model", limit=9)
        with pytest.raises(NotFound, match="no alias"):
            find_promotion(session, "demo-model@production")
    assert sorted(a.revision for a in history) == [1, 2, 3]
    assert verify_ledger(ledger, None) == []


def test_an_alias_that_names_something_else_by_now_is_left_alone(ledger: Ledger) -> None:
    with_promotions(ledger)
    alias(ledger, 2, None)
    before = everything(ledger)
    for promotion, expected in ((1, None), (1, 1), (2, 2), (9, 2)):
        with pytest.raises((Conflict, NotFound)):
            alias(ledger, promotion, expected)
    assert everything(ledger) == before


@pytest.mark.parametrize("what", ["alias", "roll back"])
def test_of_two_changes_at_once_one_is_made_and_the_other_is_told(
    ledger: Ledger, what: str
) -> None:
    with_promotions(ledger, 3)
    acts: dict[str, Callable[[int], None]] = {
        "alias": lambda to: alias(ledger, to, None),
        "roll back": lambda to: back(ledger, to, 3),
    }
    told: list[ArlError] = []
    gate = threading.Barrier(2)

    def change(to: int) -> None:
        gate.wait()
        try:
            acts[what](to)
        except ArlError as error:
            told.append(error)

    threads = [threading.Thread(target=change, args=(to,)) for to in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for error in told] == [Conflict]
    assert " now" in str(told[0]), "what is there now"
    assert verify_ledger(ledger, None) == []


def test_a_promotion_is_found_by_its_names(ledger: Ledger) -> None:
    with_promotions(ledger)
    with ledger.read() as session:
        assert find_promotion(session, "demo-model").seq == 2
        assert find_promotion(session, "demo-model:1").seq == 1
        for wrong, error in (
            ("demo-model:9", NotFound),
            ("demo-model:x", InvalidInput),
            ("demo-model:0", InvalidInput),
            ("other", NotFound),
            ("demo-model@x", NotFound),
            ("a\0b", NotFound),
        ):
            with pytest.raises(error):
                find_promotion(session, wrong)


# --- with real studies --------------------------------------------------------------------------


def test_what_was_rolled_back_to_is_what_later_studies_have_to_beat(
    promoted: Service, tmp_path: Path
) -> None:
    service, first, second = promoted, numbered(promoted, 1), numbered(promoted, 2)
    check_standing(service.ledger, service.store, first)
    with service.ledger.write() as session:
        roll_back(session, first, expected=second.seq, actor="ann", note="")
    # 0.6 beats the first's 0.3, and never the second's 0.9.
    study_id = promote(service, tmp_path, 0.3, 0.5, 0.6)
    with service.ledger.read() as session:
        families = reads.list_families(session, study_id)
        study = reads.get_study(session, study_id)
    assert study.state is StudyState.COMPLETED
    assert [family.incumbent_id for family in families] != []
    found = position(service, 4)
    assert (found.study_id, found.rolled_back_to) == (study_id, None)
    assert verify_ledger(service.ledger, service.store) == []


@pytest.mark.parametrize("damage", ["deleted", "changed"])
def test_nothing_is_rolled_back_to_that_is_not_whole(promoted: Service, damage: str) -> None:
    service, first, second = promoted, numbered(promoted, 1), numbered(promoted, 2)
    file = artifact_file(service, first)
    file.chmod(0o644)
    if damage == "deleted":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(Conflict, match=r"not in the store|changed"):
        check_standing(service.ledger, service.store, first)
    assert position(service, 2) == second
    check_standing(service.ledger, service.store, second)


def test_a_promotion_whose_entry_was_changed_is_no_way_back(promoted: Service) -> None:
    service, first = promoted, numbered(promoted, 1)
    with service.ledger.write() as session:
        run = session.connection.exec_driver_sql
        run("DROP TRIGGER entries_refuse_update")
        run(
            'UPDATE entries SET body = replace(body, \'"approver":"gate"\', '
            "'\"approver\":\"mine\"') WHERE kind = 'candidate_promoted'"
        )
    with pytest.raises(Conflict, match="not what was hashed"):
        check_standing(service.ledger, service.store, first)
