"""`arl gc`: says per artifact, log and file what goes, why and how much; and does it."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.cli import front
from ledger.database import open_ledger
from ledger.witness import witness_path
from tests.acceptance.shell_study import drive, open_service, submit
from tests.api_server import api_server
from tests.cli_runs import arl_in
from tests.target_runs import end_supervisor

SAVE = (
    'mkdir -p "$ARL_OUTPUT/model"; cp "$ARL_PARAMS" "$ARL_OUTPUT/model/params.json"; '
    'head -c 5000 /dev/urandom > "$ARL_OUTPUT/model/weights"; '
    'i=0; while [ $i -lt 100 ]; do echo "line $i"; i=$((i+1)); done'
)
PROGRAM = {"kind": "command", "argv": ["/bin/sh", "-c", SAVE]}


class Here:
    """A home with a study that ended, and the command line in this process."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.place, self.home = place, place / ".arl"
        self._capsys = capsys

    def study(self, **changes: Any) -> str:
        service = open_service(self.place)
        study_id = submit(service, self.place, program=PROGRAM, budget={"trials": 3}, **changes)
        drive(service, study_id)
        service.close()
        return study_id

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = front.run(arguments)
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def gc(self, *arguments: str) -> Any:
        code, out, err = self.run("gc", "--json", *arguments)
        assert code == 0, err
        return json.loads(out)

    def objects(self) -> set[Path]:
        return set((self.home / "artifacts" / "objects").glob("*/*"))

    def own_witness(self) -> Path:
        ledger = open_ledger(self.home / "ledger.db", create=False)
        ledger.close()
        return witness_path(self.home, ledger.id)

    def check(self) -> None:
        assert self.run("verify")[0] == 0


@pytest.fixture
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Here]:
    monkeypatch.setenv("ARL_HOME", str(tmp_path / ".arl"))
    monkeypatch.setenv("ARL_TARGET", "local")
    made = Here(tmp_path, capsys)
    yield made
    end_supervisor(made.home / "local")


def test_a_dry_run_says_what_would_go_and_what_was_announced_goes(here: Here) -> None:
    here.study()
    before = here.objects()
    told = here.gc("--dry-run", "--checkpoints", "best-1", "--grace", "0s")
    assert {a["reason"] for a in told["artifacts"]} == {"not_among_best", "not_kept"}
    assert all(a["size_bytes"] > 5000 for a in told["artifacts"])
    assert told["freed_bytes"] > 5000 * len(told["artifacts"])
    assert (here.objects(), here.gc("--dry-run")["artifacts"]) == (before, [])
    done = here.gc("--checkpoints", "best-1", "--grace", "0s")
    assert done["artifacts"] == told["artifacts"]
    assert {f["digest"] for f in done["files"]} == {f["digest"] for f in told["files"]}
    assert done["freed_bytes"] == told["freed_bytes"]
    assert here.gc("--checkpoints", "best-1", "--grace", "0s")["freed_bytes"] == 0
    here.check()
    gone = done["artifacts"][0]
    why = f"(best-1: {gone['reason'].replace('_', ' ')})"
    shown = here.run("show", gone["trial"])[1]
    assert f"model {gone['digest'][:12]} was let go by retention on" in shown
    assert why in shown
    code, _, err = here.run("serve-model", gone["trial"])
    assert (code, "let go by retention" in err) == (3, True), err


def test_logs_and_files_of_a_study_go_as_it_says(here: Here) -> None:
    study_id = here.study(retention={"checkpoints": "best-1", "logs": "300B"})
    assert here.gc()["artifacts"] == [], "its worker let go"
    assert here.gc(study_id, "--grace", "0s")["freed_bytes"] > 5000
    logs = (here.home / "local" / "logs").glob(f"arl-{study_id}-*")
    by_trial: dict[str, int] = {}
    for path in logs:
        trial = path.name.partition(".")[0]
        by_trial[trial] = by_trial.get(trial, 0) + path.stat().st_size
    assert by_trial
    assert max(by_trial.values()) <= 300
    assert "bytes of output dropped" in here.run("logs", f"{study_id}/2")[1]
    here.check()


def test_leftovers_go_with_their_reasons(here: Here) -> None:
    here.study()
    day_before = time.time() - 100_000
    part = here.home / "uploads" / "someone" / f"{'ab' * 32}.part"
    log = here.home / "local" / "logs" / "arl-gone-t1.t-0.log"
    stray = here.home / "artifacts" / "objects" / "00" / ("0" * 62)
    for path in (part, log, stray):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (day_before, day_before))
    told = here.gc("--dry-run", "--grace", "0s")
    assert {(o["kind"], o["why"]) for o in told["leftovers"]} == {
        ("upload", "nobody went on with this upload for a day"),
        ("log", "the ledger knows no such attempt"),
    }
    assert {f["digest"]: f["why"] for f in told["files"]}["0" * 64] == "orphan"
    assert all(path.exists() for path in (part, log, stray))
    assert here.gc("--grace", "0s")["freed_bytes"] >= 300
    assert not any(path.exists() for path in (part, log, stray))
    here.check()


def test_the_service_answers_gone_with_the_reason(here: Here) -> None:
    here.study()
    gone = here.gc("--checkpoints", "none", "--grace", "0s")["artifacts"][0]
    service = open_service(here.place)
    with api_server(service) as server:
        for path in (gone["digest"], f"{gone['digest']}/weights"):
            answer = httpx.get(f"{server}/api/v1/artifacts/{path}")
            assert (answer.status_code, answer.json()["code"]) == (410, "artifact_let_go")
            assert "was let go by retention" in answer.json()["detail"]
        listed = httpx.get(f"{server}/api/v1/trials/{gone['trial']}/artifacts").json()["items"]
        assert listed[0]["let_go"]["policy"] == "none"
        assert listed[0]["is_stored"] is False
    service.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--checkpoints", "best"), "write all, none, last or best-K"),
        (("--grace", "soon"), "write one like 90s"),
        (("nobody",), "no study has the id or name nobody"),
    ],
)
def test_what_it_cannot_read_is_told(here: Here, arguments: tuple[str, ...], said: str) -> None:
    open_service(here.place).close()
    code, _, err = here.run("gc", *arguments)
    assert code in (2, 3)
    assert said in err


def test_a_home_of_two_ledgers_loses_no_file_of_either(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the one does not know, the other may have promoted."""
    here.study()
    kept = here.objects()
    monkeypatch.setenv("ARL_LEDGER", f"sqlite:///{here.place / 'other.db'}")
    service = open_service(here.place, ARL_LEDGER=f"sqlite:///{here.place / 'other.db'}")
    drive(
        service,
        submit(
            service,
            here.place,
            program=PROGRAM,
            budget={"trials": 2},
            retention={"checkpoints": "none"},
        ),
    )
    service.sweeper.let_go()
    service.close()
    both = here.objects()
    assert kept < both
    for words in ((), ("--dry-run",), ("--grace", "0s")):
        code, _, err = here.run("gc", *words)
        assert (code, "another ledger's home, too" in err) == (4, True), err
    monkeypatch.delenv("ARL_LEDGER")
    code, _, err = here.run("gc", "--grace", "0s")
    assert (code, "says witness-" in err) == (4, True), err
    assert here.objects() == both
    (witness,) = set(here.home.glob("witness-*.json")) - {here.own_witness()}
    witness.unlink()
    assert here.gc("--grace", "0s")["freed_bytes"] > 0, "that ledger is gone, says its operator"
    here.check()


@pytest.mark.slow
def test_it_runs_beside_a_study_that_goes_on(tmp_path: Path) -> None:
    """Every trial of the study shares files with others while they are taken away."""
    same = 'mkdir -p "$ARL_OUTPUT/model"; echo same > "$ARL_OUTPUT/model/same"'
    with arl_in(tmp_path) as arl:
        path = arl.study(body=same, retention={"checkpoints": "none"}, budget={"trials": 25})
        done: list[Any] = []
        runner = threading.Thread(target=lambda: done.append(arl.run("run", path)))
        runner.start()
        while runner.is_alive():
            found = arl.run("gc", "--json")
            assert found.code in (0, 5), found.err  # 5: there is no ledger yet
        runner.join()
        assert done[0].code == 0, done[0].err
        assert arl.ok("verify").code == 0
