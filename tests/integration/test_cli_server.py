"""The command line against a server: the same verbs, the same documents."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli.server_source import ServerSource
from controller.client import Client
from ledger.errors import NotFound
from tests.acceptance.shell_study import document, write_evaluator
from tests.serve_runs import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / ".arl") as made:
        yield made


def arl(server: Served, *arguments: str, status: int = 0, here: Path | None = None) -> str:
    """What the command line prints, run from an empty directory with no ledger of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ARL_")}
    ended = subprocess.run(
        [sys.executable, "-m", "controller.cli", *arguments],
        env={**environment, "ARL_SERVER": server.url},
        cwd=here,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout if status == 0 else ended.stderr


def on_the_machine(server: Served, *arguments: str) -> Any:
    """The same verb on the server's own ledger."""
    ended = subprocess.run(
        [sys.executable, "-m", "controller.cli", *arguments, "--json"],
        env={**os.environ, "ARL_HOME": str(server.home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(ended.stdout)


def study_file(directory: Path, **changes: Any) -> str:
    write_evaluator(directory)
    file = directory / "study.json"
    file.write_text(json.dumps(document(**changes)), encoding="utf-8")
    return str(file)


def test_a_study_is_run_and_looked_at_from_elsewhere(server: Served, tmp_path: Path) -> None:
    told = arl(server, "run", study_file(tmp_path, name="far"), here=tmp_path)
    assert "study far" in told
    assert "completed" in told
    assert not (tmp_path / ".arl").exists()
    listed = json.loads(arl(server, "studies", "--json"))["studies"]
    (study,) = [one["study"] for one in listed if one["name"] == "far"]
    far, near = json.loads(arl(server, "show", study, "--json")), on_the_machine(server, "show")
    assert set(far) == set(near)
    assert far["best"]["params"] == near["best"]["params"]
    assert (far["counts"], far["head"]) == (near["counts"], near["head"])
    assert f"study far ({study})" in arl(server, "show", "far")
    best = f"{study}/{far['best']['number']}"
    shown = arl(server, "show", best)
    assert f"of {study}, search" in shown
    assert "score" in shown
    assert arl(server, "show", far["best"]["candidate"]).startswith("candidate ")
    assert arl(server, "lineage", best) == arl(server, "lineage", far["best"]["candidate"])
    exported = arl(server, "export", "far")
    assert exported.count("\n") == 7


def test_logs_are_read_and_followed_from_elsewhere(server: Served, tmp_path: Path) -> None:
    program = document()["program"]["argv"][2]
    talk = {"kind": "command", "argv": ["/bin/sh", "-c", f"echo hello there; {program}"]}
    study = arl(server, "submit", study_file(tmp_path, name="talk", program=talk)).strip()
    for _ in range(100):
        found = json.loads(arl(server, "show", study, "--json"))
        if any(trial["number"] == 2 for trial in found["trials"]):
            break
    assert "hello there" in arl(server, "logs", f"{study}/2", "--follow")
    assert json.loads(arl(server, "logs", f"{study}/2", "--json"))["attempts"][0]["log"]


def test_a_study_is_steered_from_elsewhere(server: Served, tmp_path: Path) -> None:
    program = document()["program"]["argv"][2]
    slow = {"kind": "command", "argv": ["/bin/sh", "-c", f"sleep 1; {program}"]}
    file = study_file(tmp_path, name="steered", program=slow, budget={"trials": 50})
    study = arl(server, "submit", file).strip()
    assert "not finished" in arl(server, "submit", file, status=4)
    assert "is paused" in arl(server, "pause", study)
    assert json.loads(arl(server, "extend", study, "--trials", "+5", "--json"))["answer"]
    assert "is" in arl(server, "resume", study)
    assert "cancelled" in arl(server, "cancel", study, "--wait")
    assert "already cancelled" in arl(server, "cancel", study, status=4)


def test_what_is_not_there_and_what_stays_here_is_said(server: Served) -> None:
    assert "not_found" in arl(server, "show", "none", status=3)
    assert "leave --server out" in arl(server, "doctor", "--server", server.url, status=2)
    assert "write its value" in arl(server, "studies", "--server", status=2)
    away = "http://127.0.0.1:9"
    assert "does not answer" in arl(server, "studies", "--server", away, status=5)
    assert "unauthorized" in arl(server, "studies", "--token", "arl_wrong", status=2)


def test_names_mean_there_what_they_mean_here(server: Served, tmp_path: Path) -> None:
    arl(server, "run", study_file(tmp_path, name="named"), here=tmp_path)
    study = json.loads(arl(server, "show", "last", "--json"))["study"]
    unmistakable = study[:-1]
    assert json.loads(arl(server, "show", unmistakable, "--json"))["study"] == study
    assert arl(server, "lineage", "last/4") == arl(server, "lineage", f"{study}/4")
    assert f"of {study}, search" in arl(server, "show", f"{unmistakable}/4")
    assert "has no trial x" in arl(server, "lineage", "last/x", status=3)
    assert "only completed" not in arl(server, "pause", unmistakable, status=4)


def test_a_name_is_a_name_whatever_characters_it_has(server: Served) -> None:
    """None is a query, a fragment or a step up in the server's paths."""
    with Client(server.url) as client:
        assert client.connection.get("/studies", {"limit": 1})["items"]
        source = ServerSource(client)
        for name in ("?limit=1", "..", ".", "#x", "na%6ded", "a/b", "%", "ü x", ""):
            for look in (source.study, source.lineage, client.candidate, client.study):
                with pytest.raises(NotFound):
                    look(name)
        known = str(source.study("last")["name"])
        for name in (f"{known}#x", f"{known}?wait=0", f"{known}%"):
            with pytest.raises(NotFound):
                client.pause(name)


def test_tokens_are_asked_for_there_as_here(server: Served, tmp_path: Path) -> None:
    for place in (("--server", server.url), ()):
        ends = [
            run_anywhere(tmp_path, "token", "create", "ci", "--expires", wrong, *place)
            for wrong in ("soon", "0s", "99999999d")
        ]
        assert [code for code, _ in ends] == [2, 2, 2]
        assert all("--expires" in said for _, said in ends)
        assert run_anywhere(tmp_path, "token", "create", *place)[0] == 2
    assert not (tmp_path / ".arl").exists()
    assert "no tokens" in arl(server, "token", "list")


def run_anywhere(here: Path, *arguments: str) -> tuple[int, str]:
    """Exit code, and what was said on standard error."""
    ended = subprocess.run(
        [sys.executable, "-m", "controller.cli", *arguments],
        env={k: v for k, v in os.environ.items() if not k.startswith("ARL_")},
        cwd=here,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.returncode, ended.stderr
