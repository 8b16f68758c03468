"""Whole studies whose every program runs in a container."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import reads
from ledger.errors import InvalidInput
from ledger.states import Reason, StudyState
from tests.acceptance.shell_study import (
    check_promoted_on,
    drive,
    drive_until_held,
    open_service,
    submit,
)
from tests.docker_runs import names_of
from tests.private_engine import Engine
from tests.target_runs import end_supervisor, wait_until

pytestmark = pytest.mark.docker

CONTAINED = {"target": {"name": "docker"}}


@pytest.fixture(autouse=True)
def _ends_keepers(tmp_path: Path) -> Iterator[None]:
    yield
    for root in (tmp_path / ".arl").glob("docker-*"):
        end_supervisor(root)


def test_a_contained_study_runs_from_submitted_to_promoted_and_leaves_no_container(
    tmp_path: Path, docker_engine: Engine
) -> None:
    service = open_service(tmp_path, DOCKER_HOST=docker_engine.host)
    check_promoted_on("docker", service, tmp_path)
    wait_until(lambda: names_of(docker_engine) == [], "every container is removed", 60.0)
    service.close()


def test_a_runtime_that_the_engine_lacks_is_refused_when_a_study_is_submitted(
    tmp_path: Path, docker_engine: Engine
) -> None:
    service = open_service(tmp_path, DOCKER_HOST=docker_engine.host)
    target = {"name": "docker", "runtime": "no-such-runtime"}
    with pytest.raises(
        InvalidInput, match=r"target.runtime 'no-such-runtime'.*write one of.*runc"
    ):
        submit(service, tmp_path, target=target)
    with service.ledger.read() as session:
        assert list(reads.workable_studies(session)) == []
    service.close()


def test_training_and_evaluation_may_be_contained_apart(
    tmp_path: Path, docker_engine: Engine
) -> None:
    from tests.acceptance.shell_study import document

    service = open_service(tmp_path, DOCKER_HOST=docker_engine.host)
    evaluator = {**document()["evaluator"], "target": "docker"}
    study_id = submit(
        service, tmp_path, target={"name": "local"}, evaluator=evaluator, budget={"trials": 1}
    )
    assert drive(service, study_id).state is StudyState.COMPLETED
    with service.ledger.read() as session:
        trial = reads.list_trials(session, study_id).items[-1].trial
        attempts = reads.get_trial(session, trial.id).attempts
    assert {(a.kind, a.target) for a in attempts} == {("train", "local"), ("evaluate", "docker")}
    service.close()
    end_supervisor(tmp_path / ".arl" / "local")


def test_a_missing_engine_pauses_the_study_which_goes_on_once_there_is_one(
    tmp_path: Path, own_engine: Engine
) -> None:
    service = open_service(tmp_path, DOCKER_HOST=own_engine.host)
    study_id = submit(service, tmp_path, budget={"trials": 1}, **CONTAINED)
    own_engine.kill()
    study = drive_until_held(service, study_id)
    assert (study.state, study.reason) == (StudyState.PAUSED, Reason.TARGET_UNAVAILABLE)
    assert own_engine.host in (study.detail or "")
    own_engine.start()
    assert drive(service, study_id).state is StudyState.COMPLETED
    service.close()


def test_a_python_study_finds_its_interpreter_in_its_containers(
    tmp_path: Path, docker_engine: Engine
) -> None:
    service = open_service(tmp_path, DOCKER_HOST=docker_engine.host)
    code = (
        "import json, os; m = os.environ['ARL_OUTPUT'] + '/model'; os.mkdir(m); "
        "open(m + '/params.json', 'w').write(open(os.environ['ARL_PARAMS']).read())"
    )
    program = {"kind": "command", "argv": ["{python}", "-c", code], "python": sys.executable}
    study_id = submit(service, tmp_path, program=program, budget={"trials": 1}, **CONTAINED)
    study = drive(service, study_id)
    assert study.state is StudyState.COMPLETED, study.detail
    service.close()
