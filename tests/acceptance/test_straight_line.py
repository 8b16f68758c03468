"""Whole lives of studies with shell programs: from submitted to promoted, on real processes."""

from pathlib import Path

from controller.steps import commands
from controller.worker.driver import StudyDriver
from controller.worker.loop import Callbacks
from ledger import reads
from ledger.records import CommandVerb
from ledger.states import FamilyState, Reason, StudyState, TrialState
from tests.acceptance.shell_study import drive, open_service, submit, target_named

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


def test_a_winner_over_yesterdays_incumbent_is_not_promoted(tmp_path: Path) -> None:
    """Both studies set out to beat the same; the first to promote leaves the other nothing."""
    service = open_service(tmp_path)
    early = submit(service, tmp_path, **PROMOTION)
    late = submit(service, tmp_path, seed=3, **PROMOTION)

    def overtake(driver: StudyDriver) -> None:
        """While `early` searches, `late` runs to its promotion."""
        if driver.study_id == early and driver.view.finish_seq == 6 and not overtaken:
            overtaken.append(True)
            drive(service, late)

    overtaken: list[bool] = []
    study = drive(service, early, Callbacks(on_tick=overtake))
    with service.ledger.read() as session:
        history = reads.list_incumbents(session, "toy")
        families = reads.list_families(session, early)
    assert overtaken
    assert [i.study_id for i in history] == [late]
    assert families == []
    assert (study.state, "another incumbent" in study.detail) == (StudyState.COMPLETED, True)
    service.close()


def test_a_study_that_fails_leaves_nothing_of_it_running(tmp_path: Path) -> None:
    """Baselines fail at once; a trial that an operator asked for would run for ever."""
    program = (
        'x=$(sed -n \'s/.*"x": *\\([0-9.]*\\).*/\\1/p\' "$ARL_PARAMS"); '
        "case $x in 0.9*) sleep 600;; *) sleep 0.5; exit 1;; esac"
    )
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        parallel=3,
        program={"kind": "command", "argv": ["/bin/sh", "-c", program]},
    )
    commands.ask(service, study_id, CommandVerb.ENQUEUE, {"params": {"x": 0.9}}, "test")
    study = drive(service, study_id)
    assert (study.state, study.reason) == (StudyState.FAILED, Reason.BASELINE_FAILED)
    with service.ledger.read() as session:
        live = reads.load_live(session, study_id)
    service.close()
    assert (list(live.trials), list(live.attempts)) == ([], [])
    assert [t.state for t in live.finished] == [TrialState.CANCELLED]
    service = open_service(tmp_path)
    assert list(target_named(service, "local").list_owned(service.ledger.id)) == []
    service.close()
