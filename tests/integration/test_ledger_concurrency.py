"""Many processes and threads on one ledger: no error, one order, one winner."""

import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from ledger import reads, writes
from ledger.database import Ledger, open_ledger
from ledger.entries import HoldoutUsed
from ledger.errors import ArlError, BudgetExceeded, Conflict, StaleFence
from ledger.records import Verdict
from ledger.states import AttemptState
from ledger.verify import verify_ledger
from tests.ledger_builders import BUNDLE, Driven, claim, driven, submit

PROCESSES = 32


def live_through(start: Barrier, path: str, study: str) -> None:
    """One process: it makes or finds the ledger, submits a study and takes it through trials."""
    start.wait(timeout=240)
    ledger = open_ledger(path, create=True)
    submit(ledger, study)
    driven = Driven(ledger, study, claim(ledger, study))
    for trial in range(3):
        driven.whole_trial(trial, 1.0)
    ledger.close()


def test_32_processes_start_at_once_without_an_error(tmp_path: Path) -> None:
    """They even race to create the ledger (optuna#820, optuna#4994)."""
    path = tmp_path / "ledger.db"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])  # so that they start together, not one by one
    start = context.Barrier(PROCESSES)
    running = [
        context.Process(target=live_through, args=(start, str(path), f"s{number}"))
        for number in range(PROCESSES)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join(timeout=240)
    assert [process.exitcode for process in running] == [0] * PROCESSES
    ledger = open_ledger(path, create=False)
    with ledger.read() as session:
        studies = reads.list_studies(session)
    assert len(studies) == PROCESSES
    assert {sum(study.trials.values()) for study in studies} == {3}
    assert verify_ledger(ledger, None) == []
    ledger.close()


def test_readers_never_block_the_writer(sqlite_ledger: Ledger) -> None:
    """optuna-dashboard#545: opening the dashboard killed the study."""
    study = driven(sqlite_ledger)
    study.whole_trial(0, 1.0)
    stop = threading.Event()
    pages: list[int] = []
    errors: list[BaseException] = []

    def read_all_the_time() -> None:
        try:
            while not stop.is_set():
                with sqlite_ledger.read() as session:
                    pages.append(len(reads.list_trials(session, "s1").items))
                    reads.list_studies(session)
        except ArlError as error:
            errors.append(error)

    readers = [threading.Thread(target=read_all_the_time) for _ in range(4)]
    for reader in readers:
        reader.start()
    with sqlite_ledger.read() as snapshot:  # a reader that never lets go
        before = len(reads.list_trials(snapshot, "s1").items)
        for number in range(1, 20):
            study.whole_trial(number, 1.0)
        assert len(reads.list_trials(snapshot, "s1").items) == before
    stop.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert max(pages) > 1
    with sqlite_ledger.read() as session:
        assert len(reads.list_trials(session, "s1").items) == 20


def race(count: int, attempt: Callable[[int], object]) -> list[BaseException | None]:
    """Run `attempt(i)` in `count` threads at once; what each raised."""
    barrier = threading.Barrier(count)
    results: list[BaseException | None] = [None] * count

    def run(number: int) -> None:
        barrier.wait()
        try:
            attempt(number)
        except ArlError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_one_of_many_workers_claims_a_study(ledger: Ledger) -> None:
    submit(ledger)
    fences: list[int | None] = []

    def claim_it(number: int) -> None:
        with ledger.write() as session:
            fences.append(writes.claim_study(session, "s1", f"w{number}", 30, dead=False))

    assert race(8, claim_it) == [None] * 8
    assert sorted(fence is None for fence in fences) == [False] + [True] * 7


def test_two_promotions_at_once_have_one_winner(ledger: Ledger) -> None:
    """mlflow#3016: two models in Production, or none."""
    studies = [driven(ledger, f"s{number}") for number in range(4)]
    for study in studies:
        study.whole_trial(0, 1.0, verdict=Verdict.KEEP)
        study.record(study.family())
    results = race(4, lambda i: studies[i].record(studies[i].promotion(0, seq=1)))
    lost = [error for error in results if error is not None]
    assert len(lost) == 3
    with ledger.read() as session:
        history = reads.list_incumbents(session, "demo-model")
    assert len(history) == 1
    winner = history[0].candidate_id
    for error in lost:
        assert isinstance(error, Conflict)
        assert winner in str(error)
    assert verify_ledger(ledger, None) == []
    loser = next(i for i, error in enumerate(results) if error is not None)
    studies[loser].record(studies[loser].promotion(0, seq=2))
    with ledger.read() as session:
        latest = reads.latest_incumbent(session, "demo-model")
    assert latest is not None
    assert latest.candidate_id == studies[loser].candidate(0)


def test_a_holdout_use_is_counted_once_across_studies(ledger: Ledger) -> None:
    studies = [driven(ledger, f"s{number}") for number in range(4)]
    for study in studies:
        study.record(study.family())

    def use(number: int) -> None:
        family = f"s{number}-f1"
        used = HoldoutUsed(family_id=family, bundle_digest=BUNDLE, use=1, limit=2)
        studies[number].record(used)

    results = race(4, use)
    assert sum(error is None for error in results) == 1
    assert all(isinstance(error, Conflict) for error in results if error is not None)
    with ledger.read() as session:
        assert reads.holdout_uses(session, BUNDLE) == 1
    beyond = HoldoutUsed(family_id="s0-f1", bundle_digest=BUNDLE, use=3, limit=2)
    with pytest.raises(BudgetExceeded, match="holdout"):
        studies[0].record(beyond)


def test_a_trial_is_retried_once_by_two_reapers(ledger: Ledger) -> None:
    """optuna#3223: the retry counter was read, changed and written by two at once."""
    study = driven(ledger)
    study.record(study.proposed(0), study.launching(0), study.started(0))

    def reap(_: int) -> None:
        lost = study.ended_attempt(0, AttemptState.RUNNING)
        study.record(lost, study.launching(0, index=1))

    results = race(4, reap)
    assert sum(error is None for error in results) == 1
    with ledger.read() as session:
        live = reads.load_live(session, "s1")
    assert [(a.index, a.state) for a in live.attempts] == [(1, AttemptState.LAUNCHING)]
    assert [a.state for a in live.past_attempts] == [AttemptState.LOST]


def test_a_worker_that_was_replaced_writes_nothing(ledger: Ledger) -> None:
    first = driven(ledger)
    results = race(
        2,
        lambda i: (
            claim(ledger, owner="w2", dead=True) if i == 0 else first.record(first.proposed(0))
        ),
    )
    assert results[0] is None
    with ledger.read() as session:
        proposed = len(reads.list_trials(session, "s1").items)
    assert proposed == (0 if isinstance(results[1], StaleFence) else 1)
    with pytest.raises(StaleFence):
        first.record(first.proposed(7))
    assert verify_ledger(ledger, None) == []
