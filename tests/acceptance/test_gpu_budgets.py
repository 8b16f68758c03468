"""GPU hours that attempts reserve come back, in the worker's own count as in the ledger's."""

import os
import signal
from collections.abc import Mapping
from typing import Any, Final

import pytest

from controller.worker.driver import StudyDriver
from ledger.records import BudgetLine, Resource
from ledger.states import AttemptState, StudyState
from ledger.trial_parts import load_budgets
from tests.acceptance.lab import Lab, train

ON_A_GPU: Final[Mapping[str, Any]] = {
    "resources": {"cpus": 0.1, "gpus": 1, "wall_time": "60s"},
    "budget": {"trials": 6, "gpu_hours": 4},
    "parallel": 1,
    "noise": {"baseline_trials": 2},
}
"""Each trial reserves 60 s, and its evaluation half an hour: without giving back, eight trials
take more than there is."""


class Believed:
    """What a worker counts of the GPU budget after each of its ticks."""

    def __init__(self) -> None:
        self.seen: list[BudgetLine] = []

    def __call__(self, driver: StudyDriver) -> None:
        self.seen.append(driver.view.budgets[Resource.GPU_S])


def known(lab: Lab, study_id: str) -> BudgetLine:
    """By the ledger."""
    with lab.service() as service, service.ledger.read() as session:
        return load_budgets(session, study_id)[Resource.GPU_S]


def test_what_attempts_reserved_is_free_again_when_they_exit(lab: Lab) -> None:
    lab.environment["ARL_GPUS"] = "0"
    study_id, believed = lab.submit(**ON_A_GPU), Believed()
    done = lab.drive(study_id, on_tick=believed)
    assert (done.state, len(lab.trials(study_id))) == (StudyState.COMPLETED, 6)
    assert max(line.reserved for line in believed.seen) == 1800.0, "one attempt at a time"
    assert believed.seen[-1].spent == pytest.approx(known(lab, study_id).spent)
    assert (believed.seen[-1].reserved, known(lab, study_id).reserved) == (0.0, 0.0)


def test_a_worker_that_takes_over_gives_back_what_the_one_before_reserved(lab: Lab) -> None:
    lab.environment["ARL_GPUS"] = "0"
    hold = 'while [ -e "${ARL_OUTPUT%/.arl/*}/hold" ]; do sleep 0.02; done; '
    (lab.base / "hold").touch()
    study_id, believed = lab.submit(**ON_A_GPU, program=train(every=hold)), Believed()
    first = lab.worker(study_id)
    lab.wait_for_line(f"arl-{study_id}-0.t-0")
    first.kill()
    os.kill(lab.record(f"arl-{study_id}-0.t-0")["subreaper"][0], signal.SIGKILL)
    (lab.base / "hold").unlink()
    done = lab.drive(study_id, on_tick=believed)
    assert done.state is StudyState.COMPLETED
    (lost,) = [a for a in lab.attempts(study_id) if a.state is AttemptState.LOST]
    assert lost.timeout_s == 60.0
    assert believed.seen[-1].spent == pytest.approx(known(lab, study_id).spent)
    assert (believed.seen[-1].reserved, known(lab, study_id).reserved) == (0.0, 0.0)
