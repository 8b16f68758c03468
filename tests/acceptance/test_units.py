"""The units of deploy/ under a real systemd, installed by the commands of docs/operations.md."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.acceptance.shell_study import TRAIN, document, write_evaluator
from tests.systemd_machine import Machine, booted, require_machine
from tests.target_runs import wait_until

pytestmark = [pytest.mark.bubblewrap, pytest.mark.slow, pytest.mark.timeout(600)]
ROOT: Final = Path(__file__).resolve().parents[2]
THERE: Final = "/srv/arl"
WORKERS: Final = ("arl-worker@1.service", "arl-worker@2.service")
EDITOR: Final = "sed -i -e /^ARL_LEDGER=/d"
"""What an operator does who stays with SQLite."""


def commands() -> list[str]:
    """Of the first block of commands under the heading."""
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.split("## One machine, with systemd\n")[1]
    return section.split("```sh\n")[1].split("```")[0].splitlines()


def before_the_boot() -> str:
    """The part that needs the package index."""
    (install,) = [line for line in commands() if "/opt/arl/bin/pip" in line]
    return f"export PATH=/usr/sbin:/usr/bin:/sbin:/bin\ncd {THERE}\n{install}\n"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    require_machine()
    place = tmp_path_factory.mktemp("given") / "arl"
    (place / "build").mkdir(parents=True)
    for folder in ("deploy", "constraints"):
        shutil.copytree(ROOT / folder, place / folder)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "-w", place / "build" / "wheel", "."], cwd=ROOT, check=True)
    with booted(before_the_boot(), [place]) as made:
        lines = commands()
        assert lines[0].startswith("apt-get install ")
        assert lines[1].startswith("make wheel ")
        for line in lines[3:]:
            made.run("env", f"EDITOR={EDITOR}", "sh", "-euc", f"cd {THERE}; {line}")
        yield made


def arl(machine: Machine, *argv: str) -> Any:
    return json.loads(machine.run("/usr/local/bin/arl", *argv, "--json"))


def state_of(machine: Machine, unit: str, what: str) -> str:
    return machine.run("systemctl", "show", "--value", f"--property={what}", unit)


def wait_until_active(machine: Machine, unit: str, *, unlike: str = "") -> str:
    """The process that it has then."""

    def is_there() -> bool:
        shown = machine.run("systemctl", "show", "-p", "ActiveState", "-p", "MainPID", unit)
        found = dict(line.split("=", 1) for line in shown.splitlines())
        return found["ActiveState"] == "active" and found["MainPID"] not in ("0", unlike)

    wait_until(is_there, f"{unit} is active", 30.0)
    return state_of(machine, unit, "MainPID")


def submit(machine: Machine, tmp_path: Path, seconds: float, **changes: Any) -> str:
    write_evaluator(tmp_path)
    program = {"kind": "command", "argv": ["/bin/sh", "-c", f"sleep {seconds}; {TRAIN}"]}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(document(program=program, **changes)))
    place = f"/srv/{tmp_path.name}"
    packed = subprocess.run(["tar", "-C", tmp_path, "-c", "."], capture_output=True, check=True)
    inside = ["nsenter", "--all", f"--target={machine.pid}"]
    laid = f"mkdir -p {place} && tar -C {place} -x --no-same-owner && chmod -R a+rX {place}"
    subprocess.run([*inside, "sh", "-c", laid], input=packed.stdout, check=True)
    return str(arl(machine, "submit", f"{place}/study.yaml")["study"])


def running(machine: Machine) -> list[str]:
    """The numbers of the programs that trials run just now."""
    found = machine.run("pgrep", "-x", "-f", r"sleep [0-9.]+", check=False)
    return found.split()


def test_the_documented_commands_start_a_server_and_workers(machine: Machine) -> None:
    for unit in ("arl-server.service", *WORKERS):
        wait_until_active(machine, unit)
        assert state_of(machine, unit, "NRestarts") == "0"
    assert "ok   bubblewrap: works" in machine.run("/usr/local/bin/arl", "doctor")
    # A unit is active before it listens.
    patient = ("--retry", "30", "--retry-delay", "1", "--retry-connrefused")
    quiet = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}")
    asked = machine.run(*quiet, *patient, "http://127.0.0.1:8420/readyz")
    assert asked == "200"


def driving(machine: Machine, study: str) -> str:
    """The unit whose worker drives it."""

    def owner() -> str | None:
        found: str | None = arl(machine, "show", study)["worker"]
        return found

    wait_until(lambda: owner() is not None, "somebody drives it", 30.0)
    pid = str(owner()).rsplit("/", 2)[1]
    return next(unit for unit in WORKERS if state_of(machine, unit, "MainPID") == pid)


def ended_without_a_loss(machine: Machine, study: str) -> None:
    """No trial was lost, none was run twice, and nothing is left of any."""
    wait_until(lambda: arl(machine, "show", study)["state"] == "completed", "it ends", 90.0)
    trials = arl(machine, "show", study, "--trials", "100")["trials"]
    assert trials
    for one in trials:
        found = arl(machine, "show", one["id"])
        assert found["state"] == "complete", found
        assert [a["kind"] for a in found["attempts"]] == ["train", "evaluate"], found["attempts"]
        assert {a["target"] for a in found["attempts"]} == {"bubblewrap"}
    assert arl(machine, "verify")["ok"]
    assert running(machine) == []


def test_a_worker_that_is_killed_is_started_again_and_its_trials_go_on(
    machine: Machine, tmp_path: Path
) -> None:
    study = submit(machine, tmp_path, 15.0, parallel=2, budget={"trials": 2})
    wait_until(lambda: len(running(machine)) == 2, "two programs run", 60.0)
    programs, unit = running(machine), driving(machine, study)
    killed = state_of(machine, unit, "MainPID")
    machine.run("kill", "-9", killed)
    again = wait_until_active(machine, unit, unlike=killed)
    assert state_of(machine, unit, "NRestarts") == "1"
    assert running(machine) == programs
    assert again != killed
    ended_without_a_loss(machine, study)


def test_a_unit_that_cannot_start_is_tried_until_it_can(machine: Machine) -> None:
    unit = "arl-server.service"
    machine.run("chmod", "a-x", "/opt/arl/bin/arl")
    machine.run("systemctl", "restart", unit, check=False)
    wait_until(lambda: int(state_of(machine, unit, "NRestarts")) >= 7, "it is tried", 60.0)
    machine.run("chmod", "a+x", "/opt/arl/bin/arl")
    wait_until_active(machine, unit)


def test_a_restart_of_everything_ends_no_trial(machine: Machine, tmp_path: Path) -> None:
    study = submit(machine, tmp_path, 15.0, parallel=2, budget={"trials": 2})
    wait_until(lambda: len(running(machine)) == 2, "two programs run", 60.0)
    programs = running(machine)
    units = ("arl-server.service", *WORKERS)
    before = [state_of(machine, unit, "MainPID") for unit in units]
    began = time.monotonic()
    machine.run("systemctl", "restart", *units)
    assert time.monotonic() - began < 20
    after = [wait_until_active(machine, unit) for unit in units]
    assert not set(before) & set(after)
    assert running(machine) == programs
    journal = machine.run("journalctl", "--no-pager", "-u", "arl-*")
    assert "Failed with result" not in journal.split("Stopping")[-1]
    ended_without_a_loss(machine, study)


def test_an_upgrade_by_the_book_ends_no_trial_and_leaves_a_back_up(
    machine: Machine, tmp_path: Path
) -> None:
    study = submit(machine, tmp_path, 20.0, parallel=2, budget={"trials": 2})
    wait_until(lambda: len(running(machine)) == 2, "two programs run", 60.0)
    programs = running(machine)
    machine.run("systemctl", "stop", "arl-worker@*", "arl-server")
    for unit in ("arl-server.service", *WORKERS):
        assert state_of(machine, unit, "ActiveState") == "inactive"
        assert state_of(machine, unit, "Result") == "success"
        assert state_of(machine, unit, "ExecMainStatus") == "0"
    machine.run("/usr/local/bin/arl", "db", "backup", "/var/lib/arl/before.db")
    wheel = f"{THERE}/build/wheel/arl-*.whl"
    again = f"/opt/arl/bin/pip install -q --no-index --no-deps --force-reinstall {wheel}"
    machine.run("sh", "-euc", again)
    machine.run("/usr/local/bin/arl", "db", "upgrade")
    assert running(machine) == programs
    machine.run("systemctl", "start", "arl-server", *WORKERS)
    assert running(machine) == programs
    ended_without_a_loss(machine, study)
    copied = machine.run("stat", "-c", "%U %a", "/var/lib/arl/before.db")
    assert copied == "arl 600"
