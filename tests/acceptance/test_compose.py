"""deploy/compose.yaml and deploy/Dockerfile, really built and started."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.shell_study import TRAIN, document, write_evaluator
from tests.compose_runs import Deployed, build_image, deployed
from tests.private_engine import Engine, require_private_engine, shared_engine
from tests.target_runs import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]
SLOW_TRAIN = f"sleep 2; {TRAIN}"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    require_private_engine()
    with shared_engine() as found:
        yield found


@pytest.fixture(scope="module")
def deployment(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    build_image(engine, tmp_path_factory.mktemp("image"))
    with deployed(engine) as made:
        made.start()
        yield made


def container_of(deployment: Deployed, worker: str) -> str:
    """The id of the container that a lease's owner runs in: its process has the number that it
    has on this machine."""
    pid = worker.rsplit("/", 2)[1]
    groups = Path(f"/proc/{pid}/cgroup").read_text()
    services = deployment.containers(**{"com.docker.compose.service": "worker"})
    return next(str(one["Id"]) for one in services if one["Id"] in groups)


def test_a_study_goes_on_when_its_workers_container_is_killed_and_is_promoted(
    deployment: Deployed, tmp_path: Path
) -> None:
    write_evaluator(tmp_path)
    study_file = tmp_path / "study.yaml"
    program = {"kind": "command", "argv": ["/bin/sh", "-c", SLOW_TRAIN]}
    promotion = {"model": "toy", "profile": "quick"}
    asked = document(program=program, promotion=promotion, noise={}, parallel=2)
    study_file.write_text(yaml.safe_dump(asked))
    study = deployment.arl("submit", str(study_file))["study"]

    def seen() -> dict[str, Any]:
        found: dict[str, Any] = deployment.arl("show", study)
        return found

    wait_until(lambda: seen()["counts"]["total"] >= 4, "trials run", 120.0)
    first = seen()["worker"]
    assert first.startswith("machine/"), "every container has the machine's name"
    for state in ("driving", "idle"):
        assert f'arl_workers{{host="machine",state="{state}"}} 1.0' in deployment.metrics()
    killed = container_of(deployment, first)
    deployment.engine.client().api.kill(killed, "SIGKILL")
    wait_until(lambda: (seen()["worker"] or first) != first, "another one takes over", 60.0)
    wait_until(lambda: seen()["state"] == "completed", "it ends", 240.0)

    ended = seen()
    assert ended["reason"] == "budget_trials"
    assert ended["promotion"]["state"] == "promoted"
    assert not ended["budgets"]["trials"]["overrun"]
    assert ended["budgets"]["trials"]["reserved"] == 0
    trials = deployment.arl("show", study, "--trials", "100")["trials"]
    lost = [one for one in trials if one["state"] not in ("complete", "pruned")]
    assert not lost, "killing a worker costs no trial"
    assert 'arl_studies{state="completed"} 1.0' in deployment.metrics()
    assert deployment.arl("verify")["ok"]


def test_attempts_run_in_arls_own_image_and_none_is_left(deployment: Deployed) -> None:
    api = deployment.engine.client().api
    wait_until(
        lambda: not api.containers(all=True, filters={"label": "arl.owner"}), "none is left", 60.0
    )
    tags = [tag for image in api.images() for tag in image["RepoTags"] or ()]
    assert not [tag for tag in tags if tag.startswith("arl-system")], "the machine lent nothing"


def test_what_workers_say_is_json_with_the_study(deployment: Deployed) -> None:
    said = []
    for one in deployment.containers(**{"com.docker.compose.service": "worker"}):
        logs = deployment.engine.client().api.logs(one["Id"], stdout=False, stderr=True)
        said += [json.loads(line) for line in logs.decode().splitlines()]
    assert {"trial_decided", "candidate_promoted"} <= {line.get("event") for line in said}
    assert all("study" in line for line in said if line["logger"] == "arl.study")


def test_a_second_start_upgrades_and_makes_no_second_token(deployment: Deployed) -> None:
    before = (deployment.place / "secrets" / "admin_token").read_text()
    deployment.run("up", "-d")
    deployment.run("run", "--rm", "setup")
    assert (deployment.place / "secrets" / "admin_token").read_text() == before
    assert len(deployment.arl("token", "list")["tokens"]) == 2
