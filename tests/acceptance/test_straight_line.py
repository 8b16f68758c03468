"""Whole lives of studies with shell programs: from submitted to promoted, on real processes."""

from pathlib import Path

from ledger import reads
from ledger.states import FamilyState, Reason, StudyState
from tests.acceptance.shell_study import drive, open_service, submit

PROMOTION = {"promotion": {"model": "toy", "profile": "quick"}, "noise": {}}


def test_a_study_runs_from_submitted_to_promoted(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    study_id = submit(service, tmp_path, parallel=2, **PROMOTION)
    study = drive(service, study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    with service.ledger.read() as session:
        incumbent = reads.latest_incumbent(session, "toy")
        families = reads.list_families(session, study_id)
        best = reads.best_trial(session, study)
    assert [family.state for family in families] == [FamilyState.PROMOTED]
    assert incumbent is not None
    assert best is not None
    assert incumbent.candidate_id == best.candidate_id
    service.close()


def test_a_second_study_starts_from_the_incumbent_and_reuses_its_runs(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    first = submit(service, tmp_path, parallel=2, **PROMOTION)
    drive(service, first)
    second = submit(service, tmp_path, parallel=2, seed=7, budget={"trials": 12}, **PROMOTION)
    study = drive(service, second)
    with service.ledger.read() as session:
        history = reads.list_incumbents(session, "toy")
        live = reads.load_live(session, second)
        winner = reads.get_candidate(session, history[-1].candidate_id)
    assert study.state is StudyState.COMPLETED
    # Five runs are wanted; the four that confirmed the incumbent are taken over.
    assert len(live.baselines) == 1
    assert live.candidates[live.baselines[0].candidate_id].params == winner.params
    assert [i.seq for i in history] == list(range(len(history), 0, -1))
    service.close()
