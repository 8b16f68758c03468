"""deploy/compose.yaml and deploy/Dockerfile, really built and started."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.shell_study import TRAIN, document, write_evaluator
from tests.compose_runs import Deployed, build_image, deployed
from tests.egress_certificate import CERTIFICATE
from tests.egress_programs import PRELUDE
from tests.private_engine import Engine, require_private_engine, shared_engine
from tests.target_runs import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]
ENDS = ("completed", "failed")
ASKING = """
def straight(address, port):
    try:
        socket.create_connection((address, port), 3).close()
    except OSError:
        return "no way"
    return "through"

said = [
    get("http://good.test/"),
    get("https://good.test/"),
    get("http://other.test/")[:3],
    get("http://server:8420/readyz")[:3],
    get("http://postgres:5432/")[:3],
    straight("198.51.100.7", 80),
    straight("198.51.100.7", 443),
    str([name for _, name in socket.if_nameindex()]),
]
print(said, flush=True)
wanted = ["site here"] * 2 + ["403"] * 3 + ["no way"] * 2 + ["['lo']"]
if said != wanted:
    sys.exit(f"{said} instead of {wanted}")
os.mkdir(os.environ["ARL_OUTPUT"] + "/model")
with open(os.environ["ARL_PARAMS"]) as given:
    with open(os.environ["ARL_OUTPUT"] + "/model/params.json", "w") as kept:
        kept.write(given.read())
"""
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


def test_a_trial_reaches_what_its_study_lists_through_squid_and_nothing_else(
    deployment: Deployed, tmp_path: Path
) -> None:
    write_evaluator(tmp_path)
    asked = document(
        program={
            "kind": "command",
            "argv": ["python3", "-I", "-S", "-c", PRELUDE + ASKING],
            "environment": {"CA": CERTIFICATE},
        },
        target={"name": "docker", "egress": ["good.test", "good.test:80", "server:8420"]},
        noise={"baseline_trials": 2},
        budget={"trials": 1},
    )
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(asked))
    study = deployment.arl("submit", str(tmp_path / "study.yaml"))["study"]
    wait_until(lambda: deployment.arl("show", study)["state"] in ENDS, "it ends", 120.0)
    assert deployment.arl("show", study)["state"] == "completed", deployment.arl("show", study)

    trial = deployment.arl("show", study, "--trials", "1")["trials"][0]["id"]
    told = [
        (one["method"], one["host"], one["port"], one["allowed"])
        for one in deployment.arl("show", trial)["network"]["requests"]
    ]
    assert told == [
        ("GET", "good.test", 80, True),
        ("CONNECT", "good.test", 443, True),
        ("GET", "other.test", 80, False),
        ("GET", "server", 8420, False),
        ("GET", "postgres", 5432, False),
    ]
    (site,) = deployment.containers(**{"com.docker.compose.service": "site"})
    hits = deployment.engine.client().api.logs(site["Id"]).decode().splitlines()
    workers = deployment.containers(**{"com.docker.compose.service": "worker"})
    networks = [one["NetworkSettings"]["Networks"]["arltest_internet"] for one in workers]
    assert {hit.split()[0] for hit in hits} <= {one["IPAddress"] for one in networks}
    assert {hit.split(" ", 1)[1] for hit in hits} == {"80 good.test", "443 good.test"}


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


def test_a_back_up_is_put_back_as_documented(deployment: Deployed, tmp_path: Path) -> None:
    postgres = ("exec", "-T", "postgres")
    copied = deployment.run(*postgres, *"pg_dump -U arl --clean --if-exists arl".split())
    known = {one["study"] for one in deployment.arl("studies")["studies"]}
    write_evaluator(tmp_path)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(document(budget={"trials": 1})))
    later = deployment.arl("submit", str(tmp_path / "study.yaml"))["study"]
    wait_until(lambda: deployment.arl("show", later)["state"] == "completed", "it ends", 120.0)

    deployment.run("stop", "server", "worker")
    put_back = "psql -q -U arl -d arl -v ON_ERROR_STOP=1 --single-transaction"
    deployment.run(*postgres, *put_back.split(), given=copied)
    with pytest.raises(AssertionError):
        deployment.run("up", "-d")
    assert "ledger_restored" in deployment.run("logs", "--no-color", "setup")
    accept = "arl db accept-restore --note back-up"
    deployment.run("run", "--rm", "--no-deps", "setup", *accept.split())
    deployment.start()
    assert {one["study"] for one in deployment.arl("studies")["studies"]} == known
    assert deployment.arl("verify")["ok"]


def test_prometheus_beside_it_reads_the_server_and_knows_the_alerts(
    deployment: Deployed,
) -> None:
    """Last: it is another service, with nothing changed but its image."""
    deployment.run("--profile", "watch", "up", "-d", "prometheus")

    def targets() -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = deployment.asked_of_prometheus("targets")[
                "activeTargets"
            ]
        except AssertionError:  # it does not listen yet
            return []
        return [one for one in found if one["health"] != "unknown"]

    wait_until(lambda: targets() != [], "it asked the server", 60.0)
    (target,) = targets()
    assert (target["health"], target["lastError"]) == ("up", "")
    assert target["scrapeUrl"] == "http://server:8420/metrics"
    (group,) = deployment.asked_of_prometheus("rules")["groups"]
    alerts = yaml.safe_load((deployment.place / "alerts.yml").read_text())["groups"][0]["rules"]
    assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in alerts]
