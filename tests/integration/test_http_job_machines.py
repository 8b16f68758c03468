"""Machines of a job service: made for a study, found again, and never left behind."""

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import Conflict, InvalidInput, NotFound, TargetUnavailable
from ledger.states import Reason, StudyState
from targets.http_job.documents import MachineDoc, MachinesDoc
from targets.http_job.machines import machine_name
from targets.http_job.target import HttpTarget
from targets.protocol import ExitCause, Program
from tests.acceptance.shell_study import drive, facts
from tests.hostile_service import Heard, Said, hostile_service
from tests.http_runs import BRIEF, QUICK, SECRET, SECRET_NAME, JobServer, http_target, job_server
from tests.http_studies import broken, open_service, ran, submit_remote
from tests.target_runs import (
    attempt,
    end_supervisor,
    finish,
    is_alive,
    processes_marked,
    python,
    wait_until,
)

MACHINE = {"target": "local", "slots": 2}
OWNER = "ledger-1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[JobServer]:
    with job_server(tmp_path / "service", "--machines", "4") as running:
        yield running
        for machine in machines_of(running):
            os.kill(machine["pid"], signal.SIGKILL)


@pytest.fixture
def target(server: JobServer, tmp_path: Path) -> Iterator[HttpTarget]:
    made = http_target(tmp_path, server.url, machine=MACHINE)
    yield made
    made.close()


def machines_of(server: JobServer) -> list[dict[str, Any]]:
    """As the service's own file has them."""
    with closing(sqlite3.connect(server.root / "state.db")) as database:
        database.row_factory = sqlite3.Row
        found = database.execute("SELECT * FROM machines WHERE pid > 0").fetchall()
        return [dict(row) for row in found]


def listed(target: HttpTarget) -> list[MachineDoc]:
    return target._hub.client.ask("GET", "/v1/machines", MachinesDoc).machines


def launch(target: HttpTarget, script: str | Program, name: str, **more: Any) -> str:
    spec = attempt(script, name=name, owner=OWNER, **more)
    until = time.monotonic() + 60
    while True:
        try:
            return target.launch(spec)
        except TargetUnavailable:  # it is still on its way
            if time.monotonic() > until:
                raise


def test_attempts_of_a_study_share_a_machine_and_another_study_has_its_own(
    server: JobServer, target: HttpTarget
) -> None:
    names = ["arl-one-0.t-0", "arl-one-1.t-0", "arl-two-0.t-0"]
    for name in names:
        assert finish(target, launch(target, "echo here", name)).exit.code == 0
    found = {machine.study: machine.name for machine in listed(target)}
    assert found == {study: machine_name(OWNER, study) for study in ("one", "two")}
    assert {f.name for f in target.list_owned(OWNER)} == set(names)
    assert len(list((server.root / "machines").iterdir())) == 2


def test_another_controller_finds_the_machine_and_its_attempts(
    server: JobServer, target: HttpTarget, tmp_path: Path
) -> None:
    handle = launch(target, 'echo x > "$ARL_OUTPUT/f"; sleep 2; exit 7', "arl-one-0.t-0")
    target.close()
    (tmp_path / "elsewhere").mkdir()
    other = http_target(tmp_path / "elsewhere", server.url, machine=MACHINE)
    try:
        assert [(f.name, f.running) for f in other.list_owned(OWNER)] == [(handle, True)]
        assert finish(other, handle).exit.code == 7
        assert Path(other.outputs(handle).root, "f").read_text() == "x\n"
    finally:
        other.close()


def test_a_machine_that_vanishes_loses_its_attempts_and_a_new_one_is_made(
    server: JobServer, target: HttpTarget
) -> None:
    handle = launch(target, "sleep 60", "arl-one-0.t-0")
    (machine,) = machines_of(server)
    os.kill(machine["pid"], signal.SIGKILL)
    ended = finish(target, handle, patience_s=60.0)
    assert ended.exit.cause is ExitCause.LOST
    assert target.score(handle) == b""
    with pytest.raises(NotFound, match="is gone with it, or with its machine"):
        target.outputs(handle)
    target.kill(handle)
    target.release(handle)
    again = launch(target, "exit 4", "arl-one-0.t-1")
    assert finish(target, again).exit.code == 4


def test_deleting_a_machine_ends_everything_on_it(server: JobServer, target: HttpTarget) -> None:
    marker = f"marked-{os.getpid()}-{time.monotonic_ns()}"
    program = python("import os, time; os.fork() or os.setsid(); time.sleep(90)", M=marker)
    launch(target, program, "arl-one-0.t-0")
    wait_until(lambda: len(processes_marked(marker)) == 2, "both processes run")
    (machine,) = machines_of(server)
    target._hub.client.ask("DELETE", f"/v1/machines/{machine['name']}", MachineDoc)
    wait_until(lambda: not listed(target), "the machine is gone", patience_s=60.0)
    assert processes_marked(marker) == []
    assert not is_alive(machine["pid"])
    assert list((server.root / "machines").iterdir()) == []


def test_a_machine_in_use_is_not_deleted_on_the_condition_that_it_is_idle(
    server: JobServer, target: HttpTarget
) -> None:

    handle = launch(target, "exit 0", "arl-one-0.t-0")
    finish(target, handle)
    name = machine_name(OWNER, "one")
    with pytest.raises(Conflict, match="has been idle for 0 s only"):
        target._hub.client.ask(
            "DELETE", f"/v1/machines/{name}", MachineDoc, query={"if_idle_s": 1.0}
        )
    target.release(handle)
    wait_until(lambda: listed(target)[0].idle_s > 1, "it is idle")
    target._hub.client.ask("DELETE", f"/v1/machines/{name}", MachineDoc, query={"if_idle_s": 1.0})
    wait_until(lambda: not listed(target), "it is gone", patience_s=60.0)


@pytest.mark.slow
def test_the_service_removes_idle_machines_by_itself(server: JobServer, tmp_path: Path) -> None:
    target = http_target(tmp_path, server.url, machine={**MACHINE, "idle_s": 2.0})
    try:
        handle = launch(target, "sleep 4", "arl-one-0.t-0")
        assert finish(target, handle).exit.code == 0  # longer than idle_s, but not idle
        time.sleep(3)
        assert listed(target)
        target.release(handle)
        wait_until(lambda: not listed(target), "it is gone", patience_s=60.0)
    finally:
        target.close()
    assert list((server.root / "machines").iterdir()) == []


@pytest.mark.slow
def test_the_service_removes_machines_of_a_ledger_that_is_never_heard_of_again(
    server: JobServer, tmp_path: Path
) -> None:
    target = http_target(tmp_path, server.url, machine={**MACHINE, "lease_s": 3.0})
    launch(target, "sleep 600", "arl-one-0.t-0")
    (machine,) = machines_of(server)
    target.close()
    wait_until(lambda: not machines_of(server), "it is gone", patience_s=60.0)
    assert not is_alive(machine["pid"])


def test_a_service_that_is_killed_finds_its_machines_again(
    server: JobServer, target: HttpTarget
) -> None:
    handle = launch(target, "sleep 3; exit 9", "arl-one-0.t-0")
    server.kill()
    server.start()
    assert finish(target, handle).exit.code == 9
    assert [m.state for m in listed(target)] == ["ready"]
    target.release(handle)
    target._hub.client.ask("DELETE", f"/v1/machines/{machine_name(OWNER, 'one')}", MachineDoc)
    wait_until(lambda: not listed(target), "it is gone", patience_s=60.0)


def test_a_service_killed_while_it_creates_goes_on_with_it(
    server: JobServer, target: HttpTarget
) -> None:
    spec = attempt("exit 0", name="arl-one-0.t-0", owner=OWNER)
    launching = threading.Thread(target=lambda: target.launch(spec))
    launching.start()
    directory = server.root / "machines" / machine_name(OWNER, "one")
    wait_until(directory.exists, "it begins")
    server.kill()
    server.start()
    launching.join(60)
    assert finish(target, launch(target, "exit 0", spec.name)).exit.code == 0
    (machine,) = machines_of(server)
    wait_until(lambda: services_on(directory) == [machine["pid"]], "one service is left")


def services_on(directory: Path) -> list[int]:
    return processes_marked(f"--root\0{directory}\0")


def test_controllers_that_ask_at_once_get_one_machine(server: JobServer, tmp_path: Path) -> None:
    targets = []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        targets.append(http_target(tmp_path / str(number), server.url, machine=MACHINE))
    threads = [
        threading.Thread(target=launch, args=(target, "sleep 1", f"arl-one-{number}.t-0"))
        for number, target in enumerate(targets)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len(listed(targets[0])) == 1
    assert len(targets[0].list_owned(OWNER)) == 4
    for target in targets:
        target.close()


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ({"target": "cloud"}, r"target.machine.target 'cloud': write bubblewrap, docker, local"),
        ({"cores": 9}, r"target.machine.cores: this service knows target and slots"),
        ({"slots": 0}, r"target.machine.slots 0: write a number"),
    ],
)
def test_a_machine_that_cannot_be_made_is_refused_at_submit_and_launch(
    server: JobServer, tmp_path: Path, machine: dict[str, Any], message: str
) -> None:
    target = http_target(tmp_path, server.url, machine=machine)
    try:
        for call in (
            lambda: target.fingerprint(python("pass")),
            lambda: target.pin(python("pass")),
            lambda: target.launch(attempt("exit 0", name="arl-one-0.t-0")),
        ):
            with pytest.raises(InvalidInput, match=message):
                call()
    finally:
        target.close()


def test_a_service_without_machines_says_so(tmp_path: Path) -> None:
    with job_server(tmp_path / "plain") as server:
        target = http_target(tmp_path, server.url, machine=MACHINE)
        try:
            with pytest.raises(InvalidInput, match="creates no machines; leave it out"):
                target.launch(attempt("exit 0", name="arl-one-0.t-0"))
        finally:
            target.close()


def test_leaked_machines_are_removed_when_a_controller_starts(tmp_path: Path) -> None:
    """By the client, whatever the service does by itself: idle and failed ones of this ledger,
    none in use, none of another ledger."""

    def machine(name: str, **more: Any) -> dict[str, Any]:
        said = {"name": name, "owner": OWNER, "study": name, "state": "ready", "idle_s": 0.0}
        return {**said, "url": "http://127.0.0.1:9", **more}

    deleted: list[tuple[str, str]] = []

    def answer(heard: Heard) -> Said:
        if heard.method == "DELETE":
            deleted.append((heard.path, heard.query["if_idle_s"]))
            return Said(machine("idle", state="deleting"))
        if heard.path == "/v1/machines":
            return Said(
                {
                    "machines": [
                        machine("used"),
                        machine("idle", idle_s=901.0),
                        machine("broken", state="failed"),
                        machine("coming", state="creating", idle_s=5000.0),
                        machine("foreign", owner="ledger-2", idle_s=5000.0),
                    ]
                }
            )
        return Said({"attempts": [], "after": None})

    with hostile_service(answer) as (url, _):
        root = tmp_path / "http-root"
        root.mkdir()
        target = http_target(tmp_path, url, machine=MACHINE, patience=BRIEF)
        with pytest.raises(TargetUnavailable):
            target.list_owned(OWNER)  # their own services do not answer: swept all the same
        target._sweep_when_due(now=True)
        wait_until(lambda: len(deleted) >= 2, "both are deleted")
        target.close()
    assert set(deleted) == {("/v1/machines/idle", "900.0"), ("/v1/machines/broken", "0")}


@pytest.mark.slow
def test_a_study_on_machines_completes_and_leaves_none(
    server: JobServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_NAME, SECRET)
    monkeypatch.setattr("targets.http_job.client.Patience", lambda: QUICK)
    monkeypatch.setattr("targets.http_job.target.Patience", lambda: QUICK)
    home = tmp_path / "home"
    home.mkdir()
    service = open_service(home)
    study_id = submit_remote(
        service,
        home,
        server.url,
        machine={**MACHINE, "idle_s": 5.0},
        sleep_s=1.5,
        budget={"trials": 3},
    )
    killed: list[int] = []

    def torment() -> None:
        wait_until(lambda: len(ran(home)) >= 3, "some have run", patience_s=120.0)
        pid = machines_of(server)[0]["pid"]
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    thread = threading.Thread(target=torment)
    thread.start()
    study = drive(service, study_id)
    thread.join()
    assert killed
    assert study.state is StudyState.COMPLETED
    assert broken(service, study_id, ran(home)) == []
    reasons = [f["reason"] for kind, f in facts(service, study_id) if kind == "attempt_ended"]
    assert Reason.ATTEMPT_LOST in reasons
    service.close()
    wait_until(lambda: not machines_of(server), "the machine is gone", patience_s=60.0)
    assert list((server.root / "machines").iterdir()) == []
    end_supervisor(home / ".arl" / "local")


def test_machines_are_named_after_their_ledger_and_study() -> None:
    names = {machine_name(o, s) for o in ("a", "b", "a\nb") for s in ("x", "y", "b\nx")}
    assert len(names) == 9
    assert all(name.startswith("arl-") and len(name) == 28 for name in names)
