"""Supervisors, subreapers and workers are killed, stopped and raced; no trial is lost."""

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from ledger.records import AttemptKind
from ledger.states import Reason, StudyState, TrialState
from targets import layout
from targets.supervisor_link import CommandLink, Connection
from tests.acceptance.lab import Lab, WorkerProcess, reasons, train

BUSY = {"retries": {"infrastructure": 100}, "parallel": 3, "stop": {"consecutive_failures": 100}}
WAITING = 'while [ ! -e "${ARL_OUTPUT%/.arl/*}/go" ]; do sleep 0.02; done; '


def supervisor_pid(lab: Lab) -> int | None:
    try:
        connection = Connection(str(lab.home / "local"))
    except OSError:
        return None
    pid: int = connection.hello["pid"]
    connection.close()
    return pid


def subreaper_pids(lab: Lab) -> list[int]:
    """Of attempts that run now."""
    place = lab.home / "local" / "attempts"
    facts = [layout.read_record(str(path)) or {} for path in place.iterdir()]
    running = [f for f in facts if "exit" not in f and "program" in f]
    return [f["subreaper"][0] for f in running if layout.process_start(f["subreaper"][0])]


def kill(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def put_to_sleep(lab: Lab, worker: WorkerProcess) -> None:
    """SIGSTOP, but not inside a transaction: nobody can take SQLite's lock from a process that
    is stopped while it holds it, so all others would only wait for it to wake up."""
    for _ in range(50):
        worker.signal(signal.SIGSTOP)
        lab.wait_for(lambda: worker.is_stopped() or worker.ended(), "it sleeps")
        try:
            with closing(sqlite3.connect(lab.home / "ledger.db", timeout=0.0)) as connection:
                connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError:
            worker.signal(signal.SIGCONT)
            time.sleep(0.005)
    raise AssertionError("it holds the lock all the time")


@pytest.mark.parametrize("victim", ["supervisor", "subreapers", "both", "worker"])
def test_kills_at_random_moments_cost_attempts_and_no_trial(lab: Lab, victim: str) -> None:
    dice = random.Random(victim)
    study_id = lab.submit(
        budget={"trials": 9}, program=train(every="sleep 0.1$(($$ % 9)); "), **BUSY
    )
    worker = lab.worker(study_id)
    kills = 0
    while not worker.ended() and kills < 12:
        time.sleep(dice.uniform(0.02, 0.25))
        if victim in ("subreapers", "both"):
            pids = subreaper_pids(lab)
            kills += kill(dice.choice(pids)) if pids else 0
        if victim == "supervisor" or (victim == "both" and dice.random() < 0.5):
            kills += kill(supervisor_pid(lab))
        if victim == "worker":
            worker.kill()
            worker = lab.worker(study_id)
            kills += 1
    assert worker.join() == 0
    assert kills >= 3
    assert lab.study(study_id).state is StudyState.COMPLETED
    trials = lab.trials(study_id)
    assert [t.state for t in trials] == [TrialState.COMPLETE] * 9
    assert [p["x"] for p in lab.params(study_id)] == [round(0.1 * i, 1) for i in range(1, 10)]
    lost = [a for a in lab.attempts(study_id) if a.reason is Reason.ATTEMPT_LOST]
    if victim == "worker":
        assert lost == [], "attempts outlive their worker"
    scored = [e.payload["trial_id"] for e in lab.entries(study_id, "trial_evaluated")]
    assert len(scored) == len(set(scored)) == 11


def test_a_killed_workers_running_trial_goes_on_and_the_same_process_is_collected(
    lab: Lab,
) -> None:
    study_id = lab.submit(budget={"trials": 1}, program=train({0.1: WAITING}))
    name = f"arl-{study_id}-2.t-0"
    worker = lab.worker(study_id)
    pid = lab.program_pid(name)
    lab.wait_for_line(name)
    for _ in range(3):
        worker.kill()
        worker = lab.worker(study_id)
        claims = len(lab.entries(study_id, "worker_claimed"))
        lab.wait_for(
            lambda before=claims: len(lab.entries(study_id, "worker_claimed")) >= before,
            "it is claimed",
        )
        assert lab.record(name)["program"][0] == pid
        assert layout.process_start(pid) is not None
    (lab.base / "go").touch()
    assert worker.join() == 0
    trained = [a for a in lab.attempts(study_id) if a.kind is AttemptKind.TRAIN]
    assert [a.id for a in trained if a.trial_id == f"{study_id}-2"] == [f"{study_id}-2.t-0"]
    assert Counter(lab.ran())[name] == 1
    assert lab.trials(study_id)[0].value == 0.1


def test_a_worker_that_slept_past_its_lease_wakes_up_and_changes_nothing(lab: Lab) -> None:
    lab.environment["ARL_LEASE_S"] = "1"
    lab.tolerated = "driven by another worker"
    study_id = lab.submit(budget={"trials": 3}, program=train({0.1: WAITING}))
    sleeper = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-2.t-0")
    put_to_sleep(lab, sleeper)
    other = lab.worker(study_id)
    lab.wait_for(lambda: len(lab.entries(study_id, "worker_claimed")) == 2, "it is taken over")
    sleeper.signal(signal.SIGCONT)
    time.sleep(0.5)
    fences = [e.payload["fence"] for e in lab.entries(study_id, "worker_claimed")]
    assert fences == [1, 2]
    (lab.base / "go").touch()
    assert other.join() == 0
    assert sleeper.join() == 0, "it leaves in peace when the study is settled"
    assert [t.state for t in lab.trials(study_id)] == [TrialState.COMPLETE] * 3
    assert len(lab.entries(study_id, "worker_claimed")) == 2


def test_a_worker_that_wakes_up_after_the_end_leaves_the_chain_as_it_is(lab: Lab) -> None:
    lab.environment["ARL_LEASE_S"] = "1"
    study_id = lab.submit(budget={"trials": 4}, program=train(every="sleep 0.05; "))
    sleeper = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-2.t-0")
    put_to_sleep(lab, sleeper)
    assert lab.worker(study_id).join() == 0
    before = lab.study(study_id)
    ran = lab.ran()
    sleeper.signal(signal.SIGCONT)
    assert sleeper.join() == 0
    after = lab.study(study_id)
    assert (after.head_seq, after.head_digest) == (before.head_seq, before.head_digest)
    assert lab.ran() == ran, "it started nothing"


@pytest.mark.parametrize("moment", range(8))
def test_a_worker_stopped_anywhere_in_its_loop_writes_nothing_stale(lab: Lab, moment: int) -> None:
    lab.environment["ARL_LEASE_S"] = "1"
    dice = random.Random(moment)
    study_id = lab.submit(budget={"trials": 9}, parallel=2)
    sleeper = lab.worker(study_id)
    lab.wait_for(lambda: lab.ran(), "it begins")
    time.sleep(dice.uniform(0.0, 0.4))
    put_to_sleep(lab, sleeper)
    assert lab.worker(study_id).join() == 0
    head = lab.study(study_id).head_digest
    sleeper.signal(signal.SIGCONT)
    assert sleeper.join() == 0
    assert lab.study(study_id).head_digest == head
    lab.drive(study_id)  # the next start sweeps what the sleeper had laid out and never started


def test_a_worker_stopped_just_before_it_asks_for_a_launch_starts_nothing_when_it_wakes_up(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.environment["ARL_LEASE_S"] = "1"
    lab.tolerated = "driven by another worker"
    study_id = lab.submit(budget={"trials": 3})
    name = f"arl-{study_id}-3.t-0"
    call = CommandLink.call

    def sleepy(link: CommandLink, operation: str, what: str, *more: Any) -> Any:
        if (operation, what) == ("launch", name):
            os.kill(os.getpid(), signal.SIGSTOP)
        return call(link, operation, what, *more)

    monkeypatch.setattr(CommandLink, "call", sleepy)
    sleeper = lab.worker(study_id)
    monkeypatch.undo()
    lab.wait_for(lambda: sleeper.is_stopped(), "it is about to ask")
    assert lab.worker(study_id).join() == 0
    assert Counter(lab.ran())[name] == 1
    sleeper.signal(signal.SIGCONT)
    assert sleeper.join() == 0
    assert Counter(lab.ran())[name] == 1
    lab.drive(study_id)


def test_workers_that_race_for_one_study_elect_one_and_launch_nothing_twice(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 6}, parallel=2)
    workers = [lab.worker(study_id) for _ in range(4)]
    assert [worker.join() for worker in workers] == [0] * 4
    assert len(lab.entries(study_id, "worker_claimed")) == 1
    assert Counter(lab.ran()).most_common(1)[0][1] == 1
    assert len(lab.trials(study_id)) == 6


def test_the_heir_is_found_at_once_when_the_leader_of_many_dies(lab: Lab) -> None:
    study_id = lab.submit(budget={"trials": 3}, program=train({0.1: WAITING}))
    workers = [lab.worker(study_id) for _ in range(3)]
    lab.wait_for_line(f"arl-{study_id}-2.t-0")
    owner = lab.study(study_id).lease_owner or ""
    leader = next(w for w in workers if f"/{w.pid}/" in owner)
    leader.kill()
    # Its lease has half a minute to go, but everyone here can see that it is dead.
    lab.wait_for(
        lambda: lab.study(study_id).lease_owner not in (owner, None), "there is an heir", 10.0
    )
    (lab.base / "go").touch()
    assert [w.join() for w in workers if w is not leader] == [0, 0]
    assert reasons(lab.trials(study_id)) == ["better"] * 3


def test_six_workers_share_one_file_and_six_studies_without_a_locked_database(lab: Lab) -> None:
    studies = [lab.submit(name=f"s{i}", budget={"trials": 5}) for i in range(6)]
    workers = [lab.worker(*studies) for _ in range(6)]
    assert [worker.join() for worker in workers] == [0] * 6
    said = "".join(worker.said() for worker in workers)
    assert "lock" not in said
    assert "does not answer" not in said
    for study_id in studies:
        assert lab.study(study_id).state is StudyState.COMPLETED
        assert len(lab.trials(study_id)) == 5
    assert Counter(lab.ran()).most_common(1)[0][1] == 1
