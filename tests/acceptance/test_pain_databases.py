"""Databases, races and speed, as users of other systems suffered them (5b)."""

import time
from collections import Counter
from typing import Any

from sqlalchemy import event

from controller.worker.loop import Worker
from ledger import reads
from ledger.states import FamilyState, StudyState
from tests.acceptance.lab import Lab, train


def test_a_reader_that_stays_open_holds_up_no_trial(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 6}, parallel=2)
    with lab.service() as service, service.ledger.read() as session:
        assert reads.get_study(session, study_id).state is StudyState.SUBMITTED
        worker = lab.worker(study_id)
        assert worker.join() == 0
        assert reads.get_study(session, study_id).state is StudyState.SUBMITTED, "one view"
    assert lab.study(study_id).state is StudyState.COMPLETED


def test_a_batch_of_proposals_holds_no_duplicate(lab: Lab) -> None:
    space = {"x": {"type": "float", "low": 0.0, "high": 1.0, "step": 0.125, "default": 0.0}}
    study_id = lab.submit(
        space=space, proposer={"name": "random"}, parallel=4, budget={"trials": 20}
    )
    lab.drive(study_id)
    values = [p["x"] for p in lab.params(study_id)]
    assert len(values) == len(set(values)) == 9


def test_what_is_written_for_a_trial_does_not_grow_with_the_study(lab: Lab) -> None:
    study_id = lab.submit(
        space={"x": {"type": "float", "low": 0.0, "high": 1.0}},
        proposer={"name": "random"},
        budget={"trials": 60},
        parallel=4,
    )
    statements: Counter[int] = Counter()
    rows: Counter[int] = Counter()
    with lab.service() as service:
        engine: Any = service.ledger._engine

        @event.listens_for(engine, "commit")
        def committed(connection: Any) -> None:
            driver: Any = connection.connection.dbapi_connection
            rows[finished[0] // 20] += driver.total_changes - seen.get(id(driver), 0)
            seen[id(driver)] = driver.total_changes
            statements[finished[0] // 20] += 1

        finished, seen = [0], dict[int, int]()

        def note(driver: Any) -> None:
            finished[0] = driver.view.finish_seq

        from controller.worker.loop import Callbacks

        Worker(service, Callbacks(on_tick=note)).run(only=[study_id])
    assert len(lab.trials(study_id)) == 60
    assert rows[2] <= 1.3 * rows[1]


def test_two_studies_that_promote_one_model_at_once_leave_one_incumbent_and_a_history(
    lab: Lab,
) -> None:
    promotion = {"promotion": {"model": "toy", "profile": "quick"}, "noise": {}}
    studies = [
        lab.submit(name=f"s{i}", budget={"trials": 2}, program=train(), **promotion)
        for i in range(2)
    ]
    workers = [lab.worker(study_id) for study_id in studies]
    assert [worker.join() for worker in workers] == [0, 0]
    with lab.service() as service, service.ledger.read() as session:
        history = reads.list_incumbents(session, "toy")
        families = [reads.list_families(session, s) for s in studies]
    promoted = sum(f.state is FamilyState.PROMOTED for found in families for f in found)
    assert len(history) == promoted >= 1
    assert sorted(i.seq for i in history) == list(range(1, promoted + 1))


def test_the_best_trial_is_found_at_once_while_the_study_runs(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 9}, parallel=3)
    study = lab.drive(study_id)
    with lab.service() as service, service.ledger.read() as session:
        took_s = []
        for _ in range(5):  # the shortest: something else may run between
            started = time.perf_counter()
            best = reads.best_trial(session, study)
            took_s.append(time.perf_counter() - started)
        assert min(took_s) < 0.1
    assert best is not None
    assert best.value == 0.9
