"""The machine's clock jumps by an hour and by years, under real processes (libfaketime)."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from controller.clock import SystemClock
from controller.worker.loop import Worker
from ledger import reads
from ledger.states import Reason, StudyState
from tests.acceptance import figures
from tests.acceptance.lab import Lab, train
from tests.acceptance.shell_study import open_service, submit, witness

ROOT = Path(__file__).resolve().parents[2]
WORK = (
    "import sys; from pathlib import Path; from controller.worker.loop import Worker; "
    "from tests.acceptance.shell_study import open_service; "
    "service = open_service(Path(sys.argv[1]), ARL_LEASE_S=sys.argv[3]); "
    "Worker(service).run(only=[sys.argv[2]]); service.close()"
)
HOUR, YEARS = 3600, 10 * 365 * 86_400
JUMPS = (HOUR, -HOUR, YEARS, -YEARS, 0)


def find_library() -> str | None:
    """libfaketime for programs with threads, where Debian's package puts it."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return str(found[0]) if found else None


class Clock:
    """What every process started with it takes for the wall clock. The monotonic clock is left
    alone, as by a real jump."""

    def __init__(self, library: str, file: Path) -> None:
        self._file = file
        self.environment = {
            **os.environ,
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }
        self.jump(0)

    def jump(self, offset_s: int) -> None:
        """Be so far from the real time, from now on, everywhere at once."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset_s:+d}\n", encoding="ascii")
        new.replace(self._file)

    def worker(self, lab: Lab, study_id: str, *, lease_s: str) -> "subprocess.Popen[bytes]":
        argv = [sys.executable, "-c", WORK, str(lab.base), study_id, lease_s]
        with (lab.base / "workers").open("ab") as log:
            return subprocess.Popen(argv, cwd=ROOT, env=self.environment, stderr=log, stdout=log)


@pytest.fixture
def clock(lab: Lab) -> Clock:
    library = find_library()
    if library is None:
        must = os.geteuid() == 0 or os.environ.get("CI") == "true"
        (pytest.fail if must else pytest.skip)("libfaketime: apt-get install libfaketime")
    return Clock(library, lab.base / "offset")


def seen_by_a_child(clock: Clock) -> float:
    code = "import time; print(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC))"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, env=clock.environment, capture_output=True, check=True)
    return float(done.stdout)


@pytest.mark.parametrize(
    ("lease_s", "workers"),
    [("30", 1), pytest.param("30", 2, marks=pytest.mark.slow)],
)
def test_a_clock_that_jumps_costs_no_attempt_and_no_second_of_any_budget(
    lab: Lab, clock: Clock, lease_s: str, workers: int
) -> None:
    before = seen_by_a_child(clock)
    clock.jump(HOUR)
    assert 3500 < seen_by_a_child(clock) - before < 3700, "the library does what it says"
    clock.jump(0)
    study_id = lab.submit(
        budget={"trials": 8, "wall_time": "10m"},
        parallel=2,
        resources={"cpus": 0.1, "wall_time": "2m", "stall_time": "60s"},
        program=train(every="sleep 0.2; "),
    )
    started = [clock.worker(lab, study_id, lease_s=lease_s) for _ in range(workers)]
    for done, offset_s in enumerate(JUMPS, start=1):
        lab.wait_for(lambda least=done: finished(lab, study_id) >= least, "it goes on", 60)
        clock.jump(offset_s)
    said = (lab.base / "workers").read_text
    assert [worker.wait(120) for worker in started] == [0] * workers, said()
    study = lab.study(study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    assert {a.reason for a in lab.attempts(study_id)} == {None}
    assert Counter(lab.ran()).most_common(1)[0][1] == 1
    assert 0 < study.active_s < 300
    assert "Traceback" not in said()
    claims = len(lab.entries(study_id, "worker_claimed"))
    figures.publish(
        f"clock jumps under {workers} workers", injected=len(JUMPS), claims=claims, **lab.tally()
    )


def finished(lab: Lab, study_id: str) -> int:
    with lab.service() as service:
        query = f"SELECT count(*) FROM trials WHERE study_id = '{study_id}' AND state = 'complete'"
        ((count,),) = witness(service).rows(query)
    return int(count)


@pytest.mark.slow
def test_a_worker_that_died_years_ahead_is_followed_at_once(lab: Lab, clock: Clock) -> None:
    """Its lease ends in ten years; that its process is gone is enough."""
    study_id = lab.submit(budget={"trials": 3}, program=train(every="sleep 0.3; "))
    clock.jump(YEARS)
    first = clock.worker(lab, study_id, lease_s="30")
    lab.wait_for_line(f"arl-{study_id}-0.t-0")
    first.kill()
    first.wait()
    clock.jump(0)
    heir = clock.worker(lab, study_id, lease_s="30")
    assert heir.wait(60) == 0, (lab.base / "workers").read_text()
    assert lab.study(study_id).state is StudyState.COMPLETED
    assert {a.reason for a in lab.attempts(study_id)} == {None}


class SetClock(SystemClock):
    """A wall clock that a test sets."""

    def __init__(self) -> None:
        self.set_by_s = 0.0

    def ahead(self) -> float:
        return super().ahead() + self.set_by_s


@pytest.mark.parametrize("offset_s", [HOUR, -HOUR])
def test_a_clock_set_after_a_commit_starts_nothing_before_the_lease_is_renewed(
    tmp_path: Path, offset_s: float
) -> None:
    service = open_service(tmp_path)
    service.clock = clock = SetClock()
    study_id = submit(service, tmp_path, budget={"trials": 2})
    worker = Worker(service)
    worker._turn([study_id])  # the first round, which claims
    driver = worker.drivers[study_id]
    while not driver.has_launches:
        driver.tick(set())
    clock.set_by_s = offset_s
    for _ in range(3):
        driver.tick(set())
    assert driver.has_launches, "who has the lease is not known: nothing is started"
    assert list((tmp_path / ".arl").rglob("attempts/*/record")) == []
    worker.run(only=[study_id])  # renews it at once, long before a third of it is over
    with service.ledger.read() as session:
        assert reads.get_study(session, study_id).state is StudyState.COMPLETED
    service.close()
