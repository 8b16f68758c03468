"""A real Prometheus with the files of deploy/ asks a real server while studies run."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from controller.wiring import Service
from ledger import writes
from ledger.records import CommandVerb
from tests.acceptance.shell_study import TRAIN, open_service, submit
from tests.serve_runs import Served, served
from tests.target_runs import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROGRAMS = ("prometheus", "promtool")
NAMES = re.compile(r"\b(?:arl|process)_\w+\b")


@dataclass(frozen=True)
class Watched:
    """A server, and the Prometheus that asks it once a second."""

    url: str
    server: Served
    token: str

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=10, trust_env=False)
        told = answer.json()
        assert told["status"] == "success", (query, told)
        return told["data"]

    def value_of(self, expression: str) -> list[Any]:
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def metrics(self) -> bytes:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx.get(f"{self.server.url}/metrics", headers=headers, trust_env=False)
        return answer.raise_for_status().content


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Whose ledger is on another disk than its home."""
    base = tmp_path_factory.mktemp("watched")
    with tempfile.TemporaryDirectory(prefix="arl-watched-", dir="/dev/shm") as other:
        made = open_service(base, ARL_LEDGER=f"sqlite:///{other}/ledger.db")
        yield made
        made.close()


@pytest.fixture(scope="module")
def watched(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    assert not missing, f"{missing} not installed: scripts/services.sh slow"
    home, ledger = service.settings.home, {"ARL_LEDGER": service.ledger.address}
    folder = tmp_path_factory.mktemp("prometheus")
    argv = [sys.executable, "-m", "controller.cli", "token", "create", "prometheus"]
    environment = {"ARL_HOME": str(home), **ledger}
    made = subprocess.run(
        [*argv, "--scope", "read"], env=environment, capture_output=True, text=True, check=True
    )
    token = made.stdout.strip()
    with served(home, **ledger) as server, prometheus(folder, server.port, token) as url:
        yield Watched(url, server, token)


@contextmanager
def prometheus(folder: Path, port: int, token: str) -> Iterator[str]:
    """With the shipped files, but for the server's address, the token's place and how often."""
    shutil.copy(DEPLOY / "alerts.yml", folder)
    (folder / "token").write_text(token)
    asked = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    asked["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    job = asked["scrape_configs"][0]
    job["authorization"]["credentials_file"] = str(folder / "token")
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(asked))
    subprocess.run(["promtool", "check", "config", config], check=True, capture_output=True)
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder}/data",
                "--web.listen-address=127.0.0.1:0",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://{_address(folder / 'log', running)}"
    finally:
        running.terminate()
        running.wait(30)


def _address(log: Path, running: "subprocess.Popen[bytes]") -> str:
    """Where it listens, as it says itself."""
    wanted = re.compile(r"Listening on.* address=(\S+)")

    def found() -> re.Match[str] | None:
        assert running.poll() is None, log.read_text()
        return wanted.search(log.read_text())

    wait_until(lambda: found() is not None, "Prometheus listens", 30.0)
    place = found()
    assert place is not None
    address = place[1].replace("[::]", "127.0.0.1")
    wait_until(lambda: _is_ready(address), "Prometheus is ready", 30.0)
    return address


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/-/ready", trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def lived(watched: Watched, service: Service, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Studies end in several ways, one goes on, one is paused, all while Prometheus looks."""
    wait_until(lambda: watched.value_of("arl_worker_claims_total") != [], "it looks", 30.0)
    broken = {"kind": "command", "argv": ["/bin/sh", "-c", "exit 3"]}
    slow = {"kind": "command", "argv": ["/bin/sh", "-c", f"sleep 60; {TRAIN}"]}
    promotion = {"model": "toy", "profile": "quick"}
    wanted: dict[str, dict[str, Any]] = {
        "promoted": {"promotion": promotion, "noise": {}},
        "failed": {"program": broken},
        "slow": {"program": slow},
        "paused": {"program": slow},
    }
    made = {
        name: submit(service, tmp_path_factory.mktemp(name), name=name, **changes)
        for name, changes in wanted.items()
    }
    with service.ledger.write() as session:
        writes.insert_command(session, made["paused"], CommandVerb.PAUSE, {}, "me")
    ended = "sum(arl_studies_ended_total)"
    wait_until(lambda: watched.value_of(f"{ended} >= 2") != [], "studies ended", 120.0)
    return watched


def panels() -> list[tuple[str, str]]:
    board = json.loads((DEPLOY / "grafana" / "arl.json").read_text())
    return [(p["title"], t["expr"]) for p in board["panels"] for t in p.get("targets", ())]


def test_the_server_is_found_with_the_shipped_configuration(watched: Watched) -> None:
    wait_until(lambda: watched.value_of('up{job="arl"} == 1') != [], "it is up", 30.0)
    (target,) = watched.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_promtool_finds_nothing_to_mend_in_the_metrics(lived: Watched) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=lived.metrics(), capture_output=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_every_name_in_alerts_and_panels_was_told(lived: Watched) -> None:
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    expressions = [rule["expr"] for group in groups for rule in group["rules"]]
    expressions += [expression for _, expression in panels()]
    asked = {name for one in expressions for name in NAMES.findall(one)}
    assert len(asked) > 25
    assert asked - set(lived.ask("label/__name__/values")) == set()


def test_every_panel_shows_something(lived: Watched) -> None:
    def empty() -> list[tuple[str, str]]:
        return [one for one in panels() if not lived.value_of(one[1])]

    until = time.monotonic() + 60
    while empty() and time.monotonic() < until:
        time.sleep(0.5)
    assert empty() == []


def test_every_alert_is_evaluated_and_none_fires(lived: Watched) -> None:
    def rules() -> list[Any]:
        return [rule for group in lived.ask("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(r["health"] != "unknown" for r in rules()), "all were tried", 30.0)
    assert len(rules()) == 14
    assert {rule["health"] for rule in rules()} == {"ok"}
    assert {rule["state"] for rule in rules()} <= {"inactive", "pending"}
