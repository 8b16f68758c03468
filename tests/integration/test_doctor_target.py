"""`arl doctor --target`: what it tells, how it ends, and that it leaves nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from targets.conformance.stage import PREFIX
from targets.conformance.suite import CHECKS, LAST
from targets.promises import Subject
from tests.cli_runs import Arl, Done
from tests.http_runs import SECRET, SECRET_NAME, job_server
from tests.machine_image import import_machine_image
from tests.private_engine import shared_engine
from tests.target_runs import is_alive, processes_marked, require_bubblewrap, wait_until

LOCAL_PROMISES_NOT = {
    "labels", "processors", "interfaces", "loopback", "names", "egress", "files of the machine",
    "read-only", "scratch", "other processes", "gpus", "image",
}  # fmt: skip
PATIENCE_S = 200.0
"""For forty attempts in containers on a busy machine."""
BUBBLEWRAP_PROMISES_NOT = {"gpus", "image"}
FEW = ("exit code", "deadline", "labels", "environment")
"""What a quick run tries of what takes half a minute where each attempt is dear."""
CHOSEN = [
    pytest.param(FEW, id="few"),
    pytest.param(tuple(CHECKS), id="all", marks=pytest.mark.slow),
]


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    made = Arl(tmp_path)
    yield made
    assert attempts_running(made) == [], "no attempt of the doctor's runs on"


def attempts_running(arl: Arl) -> list[int]:
    mark = f"{arl.home}/doctor/local/attempts/{PREFIX}"
    return [pid for pid in processes_marked(mark) if is_alive(pid)]


def outcomes(document: Any) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in document["checks"]}


def tried(arl: Arl, *arguments: str, **more: str) -> Done:
    """A whole run, however busy the machine is."""
    with arl.start("doctor", "--target", *arguments, "--json", **more) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, out, err)


def only(chosen: Sequence[str]) -> list[str]:
    return [word for name in chosen for word in ("--only", name)]


def failing(document: Any) -> list[str]:
    return [f"{c['name']}: {c['detail']}" for c in document["checks"] if c["outcome"] == "fails"]


def test_a_plain_process_keeps_what_it_promises_and_says_what_it_does_not(arl: Arl) -> None:
    done = tried(arl, "local")
    document = done.json()
    assert failing(document) == []
    assert (done.code, document["ok"], document["target"]) == (0, True, "local")
    assert list(outcomes(document)) == [*CHECKS, LAST]
    no = {name for name, outcome in outcomes(document).items() if outcome == "not promised"}
    assert no == LOCAL_PROMISES_NOT | ({"clock"} if os.geteuid() == 0 else set())
    words = {check["name"]: check["detail"] for check in document["checks"]}
    assert words["loopback"] == "it has this machine's network"
    assert {p["subject"] for p in document["promises"]} == set(Subject)
    assert not arl.home.exists()


@pytest.mark.bubblewrap
def test_a_sandbox_keeps_everything_it_promises(arl: Arl) -> None:
    require_bubblewrap()
    done = tried(arl, "bubblewrap")
    document = done.json()
    assert failing(document) == []
    assert done.code == 0
    no = {name for name, outcome in outcomes(document).items() if outcome == "not promised"}
    assert no <= BUBBLEWRAP_PROMISES_NOT | {"processors"}
    assert done.err.count("\n") == len(CHECKS) + 1
    assert not arl.home.exists()


@pytest.mark.docker
@pytest.mark.parametrize("chosen", CHOSEN)
def test_a_container_keeps_everything_it_promises(
    arl: Arl, monkeypatch: pytest.MonkeyPatch, chosen: tuple[str, ...]
) -> None:
    with shared_engine() as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        image = import_machine_image("arl-doctor-test")
        more = {"DOCKER_HOST": engine.host}
        others = {c["Id"] for c in engine.client().api.containers(all=True)}
        found = {c["name"]: c for c in arl.ok("doctor", "--json", **more).json()["checks"]}
        done = tried(arl, "docker", *only(chosen), **more)
        named = ("--image", image, "--only", "image", "--only", "deadline")
        imaged = tried(arl, "docker", *named, **more)
        left = {c["Id"] for c in engine.client().api.containers(all=True)} - others
    assert "engine " in found["docker"]["found"]
    document = done.json()
    assert (failing(document), done.code) == ([], 0)
    assert (failing(imaged.json()), imaged.code) == ([], 0)
    assert outcomes(imaged.json()) == dict.fromkeys(("image", "deadline", LAST), "holds")
    assert list(outcomes(document)) == [*chosen, LAST]
    assert "not promised" not in outcomes(document).values()
    assert left == set()
    assert not arl.home.exists()


@pytest.mark.parametrize("chosen", CHOSEN)
def test_a_job_service_keeps_what_it_says(
    arl: Arl, tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    with job_server(tmp_path / "service") as server:
        options = ("--url", server.url, "--secret", SECRET_NAME, "--python", sys.executable)
        done = tried(arl, "http", *options, *only(chosen), **{SECRET_NAME: SECRET})
    document = done.json()
    assert (failing(document), done.code) == ([], 0)
    assert list(outcomes(document)) == [*chosen, LAST]
    no = {name for name, outcome in outcomes(document).items() if outcome == "not promised"}
    assert no == (LOCAL_PROMISES_NOT | {"clock"}) & set(chosen)
    assert SECRET not in done.out + done.err


def test_the_table_tells_each_check_and_the_sum(arl: Arl) -> None:
    done = arl.ok("doctor", "--target", "local", "--only", "exit code", "--only", "loopback")
    assert "code 7 after" in done.out
    assert "it has this machine's network" in done.out
    assert "target local: 2 hold, 0 fail, 1 not promised, 0 cannot be checked here" in done.out
    assert "\x1b" not in done.out


def test_the_target_of_a_study_file_is_tried(arl: Arl) -> None:
    study = json.loads(Path(arl.place, arl.study()).read_text(encoding="utf-8"))
    study["target"] = {"name": "local"}
    (arl.place / "chosen.yaml").write_text(json.dumps(study))
    done = arl.ok("doctor", "--study", "chosen.yaml", "--only", "exit code", "--json")
    assert done.json()["target"] == "local"
    auto = arl.ok("doctor", "--target", "auto", "--only", "exit code", "--json")
    assert auto.json()["target"] == "local"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "cloud"), "--target 'cloud'"),
        (("--target", "local", "--image", "x"), "--image: target local does not read it"),
        (("--target", "http", "--url", "http://localhost:1"), "--secret: target http needs it"),
        (("--target", "ray"), "--address: target ray needs it"),
        (("--target", "local", "--only", "nothing"), "check 'nothing' is not known"),
        (("--image", "x"), "--image: only with --target or --study"),
        (("--only", "log"), "--only: only with --target or --study"),
    ],
)
def test_a_wrong_option_is_named(arl: Arl, arguments: tuple[str, ...], words: str) -> None:
    done = arl.run("doctor", *arguments)
    assert done.code == 2
    assert words in done.err
    assert not arl.home.exists()


def start_until(arl: Arl, words: str) -> "subprocess.Popen[str]":
    """A run of which an attempt runs that sleeps for long."""
    process = arl.start("doctor", "--target", "local", "--only", "stall", "--only", "deadline")
    wait_until(lambda: attempts_running(arl), words)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing(arl: Arl, number: int) -> None:
    process = start_until(arl, "its attempts run")
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert attempts_running(arl) == []
    assert not arl.home.exists()


def test_what_a_killed_run_left_is_ended_by_the_next(arl: Arl) -> None:
    process = start_until(arl, "its attempts run")
    process.kill()
    process.communicate()
    assert attempts_running(arl) != []
    work = Path((arl.home / "doctor" / "work").read_text(encoding="utf-8"))
    assert work.is_dir()
    done = arl.ok("doctor", "--target", "local", "--only", "exit code")
    assert "attempts that an earlier run left" in done.err
    assert attempts_running(arl) == []
    assert not work.exists()
    assert not list((arl.home / "doctor").glob("*"))


def test_two_runs_in_one_place_do_not_end_each_other(arl: Arl) -> None:
    process = start_until(arl, "the first runs")
    done = arl.run("doctor", "--target", "local", "--only", "exit code")
    assert done.code == 4
    assert "another `arl doctor --target` runs" in done.err
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "3 hold" in out


def test_doctor_says_which_target_auto_is_and_why(arl: Arl) -> None:
    started = time.monotonic()
    found = {c["name"]: c for c in arl.ok("doctor", "--json").json()["checks"]}
    assert time.monotonic() - started < 15
    assert found["target auto"]["found"] == "local (ARL_TARGET says so)"
    for name in ("bubblewrap", "docker", "squid", "http target", "ray target"):
        assert found[name]["found"]
        assert found[name]["ok"] or found[name]["remedy"] or name == "docker"
