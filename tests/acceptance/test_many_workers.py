"""Several workers and studies on one host: shares, one pool, and who takes over."""

import signal
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from controller.documents.sharing import share_document
from ledger import reads
from ledger.pools import all_holds, host_use
from ledger.records import CommandVerb
from ledger.states import StudyState, TrialState
from tests.acceptance import figures
from tests.acceptance.lab import Lab, WorkerProcess, train
from tests.acceptance.test_process_kills import WAITING, put_to_sleep
from tests.postgres_server import PostgresServer

LOG = 'date +"+ %s.%N" >> "${ARL_OUTPUT%/.arl/*}/times"; '
WORK = LOG + "sleep 0.1; " + LOG.replace("+ %s", "- %s")
RANDOM = {
    "space": {"x": {"type": "float", "low": 0.0, "high": 1.0, "default": 0.05}},
    "proposer": {"name": "random"},
}
SLACK_S = 4.0
"""Of a machine that does other things, too, in what is asserted; the figure is printed."""


def overlaps(lab: Lab) -> int:
    """The most programs that ever ran at once."""
    lines = (lab.base / "times").read_text().splitlines()
    changes = sorted((float(line[2:]), 1 if line[0] == "+" else -1) for line in lines)
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def share(lab: Lab, study_id: str) -> dict[str, Any]:
    with lab.service() as service, service.ledger.read() as session:
        return dict(share_document(session, reads.get_study(session, study_id)))


def done(lab: Lab, study_id: str, kinds: Sequence[str] = ("search",)) -> int:
    trials = [trial for kind in kinds for trial in lab.trials(study_id, kind)]
    return sum(trial.state is TrialState.COMPLETE for trial in trials)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def shop(request: pytest.FixtureRequest, lab: Lab) -> Lab:
    """A lab on either database."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        lab.environment["ARL_LEDGER"] = server.new_ledger_url()
    return lab


def test_workers_of_one_host_share_its_processors(shop: Lab) -> None:
    shop.environment["ARL_CPUS"] = "2"
    program = train(every=WORK)
    wanted = {"program": program, "parallel": 4, "resources": {"cpus": 1}, "budget": {"trials": 4}}
    studies = [shop.submit(name=f"s{number}", **wanted) for number in range(3)]
    workers = [shop.worker(study_id) for study_id in studies]
    assert [worker.join() for worker in workers] == [0, 0, 0]
    assert overlaps(shop) <= 2
    assert [shop.study(s).state for s in studies] == [StudyState.COMPLETED] * 3
    with shop.service() as service, service.ledger.read() as session:
        assert all_holds(session) == []


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_studies_share_a_slot_by_their_weights(lab: Lab, workers: int) -> None:
    lab.environment["ARL_CPUS"] = "1"
    program = train(every="sleep 0.15; ")
    wanted = {"program": program, "resources": {"cpus": 1}, "parallel": 2, **RANDOM}
    light = lab.submit(name="light", budget={"trials": 8}, **wanted)
    heavy = lab.submit(name="heavy", budget={"trials": 14}, weight=3, **wanted)
    groups = [(light, heavy)] if workers == 1 else [(light,), (heavy,)]
    running = [lab.worker(*group) for group in groups]
    both = ("search", "baseline")
    lab.wait_for(lambda: done(lab, heavy, both) >= 3 <= 3 * done(lab, light, both), "both run", 60)
    before = done(lab, heavy, both), done(lab, light, both)
    lab.wait_for(lambda: done(lab, heavy, both) >= before[0] + 9, "the heavy one goes on", 60)
    behind = done(lab, light, both) - before[1]
    assert [worker.join() for worker in running] == [0] * workers
    assert 1 <= behind <= 5, "nine of the heavy one, three of the light one"


@pytest.mark.slow
def test_the_higher_priority_goes_first_and_can_be_given_later(lab: Lab) -> None:
    lab.environment["ARL_CPUS"] = "1"
    wanted = {"resources": {"cpus": 1}, "program": train(every="sleep 0.1; ")}
    usual = lab.submit(name="usual", budget={"trials": 8}, **wanted)
    urgent = lab.submit(name="urgent", budget={"trials": 5}, **wanted)
    lab.ask(urgent, CommandVerb.EXTEND, priority=5)
    worker = lab.worker(usual, urgent)
    lab.wait_for(lambda: done(lab, urgent) == 5, "the urgent one is through", 60)
    assert done(lab, usual) <= 2
    assert worker.join() == 0
    assert share(lab, urgent)["priority"] == 5
    (entry,) = lab.entries(urgent, "setting_changed")
    assert dict(entry.payload) == {"setting": "priority", "value": 5}


def test_what_waits_says_for_what_and_takes_it_when_it_is_free(lab: Lab) -> None:
    lab.environment.update(ARL_CPUS="2", ARL_GPUS="a,b", ARL_HOST="node1")
    wanted = {"resources": {"cpus": 1, "gpus": 2}, "budget": {"trials": 1}}
    first = lab.submit(name="first", program=train(every=WAITING), **wanted)
    second = lab.submit(name="second", **wanted)
    workers = [lab.worker(first)]
    lab.wait_for_line(f"arl-{first}-0.t-0")
    workers.append(lab.worker(second))
    lab.wait_for(lambda: share(lab, second)["waits"], "it says that it waits")
    waits = share(lab, second)["waits"]
    assert (waits["host"], waits["cpus"], waits["gpus"]) == ("node1", 1.0, 2)
    assert waits["held_by_others"]["gpu_ids"] == ["a", "b"]
    assert share(lab, first)["holds"][0]["trials"] == 1
    assert "second" not in " ".join(lab.ran())
    (lab.base / "go").touch()
    assert [worker.join() for worker in workers] == [0, 0]
    assert share(lab, second)["waits"] is None


def test_a_taken_over_trial_keeps_its_gpu_and_nobody_else_gets_it(lab: Lab) -> None:
    lab.environment.update(ARL_GPUS="a,b", ARL_CPUS="4")
    wanted = {"resources": {"cpus": 1, "gpus": 1}, "budget": {"trials": 1}}
    other = lab.submit(name="other", program=train(every=WAITING), **wanted)
    study = lab.submit(name="study", program=train(every=WAITING), **wanted)
    workers = [lab.worker(other)]
    lab.wait_for_line(f"arl-{other}-0.t-0")
    workers.append(lab.worker(study))
    lab.wait_for_line(f"arl-{study}-0.t-0")
    before = {tuple(held["gpu_ids"]) for s in (other, study) for held in share(lab, s)["holds"]}
    assert before == {("a",), ("b",)}
    mine = share(lab, study)["holds"][0]["gpu_ids"]
    for worker in workers:
        worker.kill()
    heirs = [lab.worker(study), lab.worker(other)]
    lab.wait_for(lambda: len(lab.entries(study, "worker_claimed")) == 2, "it is taken over")
    assert share(lab, study)["holds"][0]["gpu_ids"] == mine
    (lab.base / "go").touch()
    assert [heir.join() for heir in heirs] == [0, 0]


def test_what_an_abandoned_study_held_comes_back_once_it_runs_no_more(lab: Lab) -> None:
    lab.environment["ARL_CPUS"] = "1"
    lab.expects_ends = False
    left = lab.submit(name="left", program=train(every=WAITING), resources={"cpus": 1})
    worker = lab.worker(left)
    lab.wait_for_line(f"arl-{left}-0.t-0")
    worker.kill()
    other = lab.submit(name="other", resources={"cpus": 1}, budget={"trials": 1})
    heir = lab.worker(other)
    lab.wait_for(lambda: share(lab, other)["waits"], "it waits for what runs")
    time.sleep(0.5)
    assert done(lab, other) == 0
    (lab.base / "go").touch()  # the program ends; no worker is there to say so
    assert heir.join() == 0
    assert done(lab, other) == 1
    with lab.service() as service, service.ledger.read() as session:
        assert host_use(session, service.settings.host).holds == []
    lab.drive(left)
    assert lab.study(left).state is StudyState.COMPLETED


# --- taking over -------------------------------------------------------------------------------

LEASE_S = 2.0


def claimed_at(lab: Lab, study_id: str, times: int) -> float:
    lab.wait_for(lambda: len(lab.entries(study_id, "worker_claimed")) >= times, "it is claimed")
    return lab.entries(study_id, "worker_claimed")[times - 1].at


@pytest.fixture
def two_workers(shop: Lab) -> Iterator[tuple[Lab, str, WorkerProcess]]:
    """A study with a trial that waits, its worker, and another worker that would take it."""
    shop.environment["ARL_LEASE_S"] = f"{LEASE_S:g}"
    shop.tolerated = "driven by another worker|does not answer"
    study_id = shop.submit(budget={"trials": 1}, program=train({0.1: WAITING}))
    owner = shop.worker(study_id)
    shop.wait_for_line(f"arl-{study_id}-2.t-0")
    heir = shop.worker(study_id)
    time.sleep(0.5)
    yield shop, study_id, owner
    (shop.base / "go").touch()
    assert heir.join() == 0


def test_a_killed_workers_study_is_taken_over(
    two_workers: tuple[Lab, str, WorkerProcess],
) -> None:
    shop, study_id, owner = two_workers
    killed_at = time.time()
    owner.kill()
    took_s = claimed_at(shop, study_id, 2) - killed_at
    figures.publish("taken over after kill -9", took_s=round(took_s, 2), lease_s=LEASE_S)
    assert took_s <= LEASE_S + 1.0 + SLACK_S


def test_a_stopped_workers_study_is_taken_over_when_its_lease_ends(
    two_workers: tuple[Lab, str, WorkerProcess],
) -> None:
    """Nothing but its lease tells that it will not come back."""
    shop, study_id, owner = two_workers
    if "ARL_LEDGER" in shop.environment:
        owner.signal(signal.SIGSTOP)
    else:
        put_to_sleep(shop, owner)
    stopped_at = time.time()
    took_s = claimed_at(shop, study_id, 2) - stopped_at
    owner.signal(signal.SIGCONT)
    (shop.base / "go").touch()
    assert owner.join() == 0
    figures.publish("taken over after SIGSTOP", took_s=round(took_s, 2), lease_s=LEASE_S)
    assert LEASE_S / 2 <= took_s <= LEASE_S + 1.0 + SLACK_S


@pytest.mark.slow
def test_workers_spread_the_studies_and_leave_none_alone(shop: Lab) -> None:
    """Whoever came first has all of them, until the second is there."""
    shop.environment["ARL_LEASE_S"] = "3"
    wanted = {"program": train(every=WAITING), "budget": {"trials": 1}}
    studies = [shop.submit(name=f"s{number}", **wanted) for number in range(4)]
    first = shop.worker()
    shop.wait_for(lambda: all(shop.study(s).lease_owner for s in studies), "all are driven")
    assert len({shop.study(s).lease_owner for s in studies}) == 1
    second = shop.worker()

    def shares() -> list[int]:
        owners = [shop.study(s).lease_owner for s in studies]
        return sorted(owners.count(owner) for owner in set(owners) if owner)

    shop.wait_for(lambda: shares() == [2, 2], "each has two")
    first.kill()
    shop.wait_for(lambda: shares() == [4], "the other has all")
    (shop.base / "go").touch()
    shop.wait_for(
        lambda: all(shop.study(s).state is StudyState.COMPLETED for s in studies), "all end"
    )
    second.kill()
    shop.drive(shop.submit(name="last", budget={"trials": 1}))  # who claims sweeps up after both
