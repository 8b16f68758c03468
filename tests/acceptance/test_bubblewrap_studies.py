"""Whole studies whose every program runs in a sandbox, alone and beside unsandboxed ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.worker.loop import Callbacks, Worker
from ledger import reads
from ledger.errors import InvalidInput
from ledger.states import Reason, StudyState
from targets.bubblewrap import BubblewrapTarget
from targets.protocol import Program
from tests.acceptance.shell_study import (
    check_promoted_on,
    drive,
    drive_until_held,
    open_service,
    submit,
    target_named,
)
from tests.target_runs import attempt, end_supervisor, require_bubblewrap

pytestmark = pytest.mark.bubblewrap

SANDBOXED = {"target": {"name": "bubblewrap"}}


@pytest.fixture(autouse=True)
def _needs_bubblewrap() -> None:
    require_bubblewrap()


def end_supervisors(base: Path) -> None:
    for name in ("local", "bubblewrap"):
        end_supervisor(base / ".arl" / name)


def test_a_sandboxed_study_runs_from_submitted_to_promoted(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    check_promoted_on("bubblewrap", service, tmp_path)
    service.close()
    end_supervisors(tmp_path)


def test_studies_on_two_targets_are_driven_by_one_worker_without_waiting_for_each_other(
    tmp_path: Path,
) -> None:
    service = open_service(tmp_path, ARL_CPUS="4")
    # One that only sleeps: its target has no news while the other's study goes through.
    slow = {"program": {"kind": "command", "argv": ["/bin/sh", "-c", "sleep 60"]}}
    sandboxed = submit(service, tmp_path, **SANDBOXED)
    held = submit(service, tmp_path, **slow)
    ticks = 0

    def stop_when_done(driver: object) -> None:
        nonlocal ticks
        ticks += 1
        if sandboxed not in worker.drivers or worker.drivers[sandboxed].is_settled:
            worker.stop()

    worker = Worker(service, Callbacks(on_tick=stop_when_done))
    worker.run(only=[sandboxed, held])
    with service.ledger.read() as session:
        assert reads.get_study(session, sandboxed).state is StudyState.COMPLETED
        running = reads.load_live(session, held)
    assert running is not None
    assert ticks < 2000, "it waits for news of both, it does not ask all the time"
    assert target_named(service, "local").list_owned(service.ledger.id) != []
    service.close()
    end_supervisors(tmp_path)


def test_without_a_sandbox_the_study_waits_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service(tmp_path)
    study_id = submit(service, tmp_path, **SANDBOXED)
    monkeypatch.setenv("PATH", str(tmp_path))
    study = drive_until_held(service, study_id)
    assert (study.state, study.reason) == (StudyState.PAUSED, Reason.TARGET_UNAVAILABLE)
    assert "install the package bubblewrap" in (study.detail or "")
    assert "target.name: local" in (study.detail or "")
    monkeypatch.undo()
    assert drive(service, study_id).state is StudyState.COMPLETED, "it goes on by itself"
    service.close()
    end_supervisors(tmp_path)


def test_the_logs_of_sandboxed_trials_are_found_by_the_command_line(
    tmp_path: Path,
) -> None:
    service = open_service(tmp_path)
    argv = ["/bin/sh", "-c", 'echo said inside; mkdir "$ARL_OUTPUT/model"; exit 3']
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": argv},
        budget={"trials": 1},
        **SANDBOXED,
    )
    drive(service, study_id)
    with service.ledger.read() as session:
        trial = reads.list_trials(session, study_id).items[0].trial
    service.close()
    end_supervisors(tmp_path)
    shown = subprocess.run(
        [sys.executable, "-m", "controller.cli", "logs", trial.id],
        env={**os.environ, "ARL_HOME": str(tmp_path / ".arl")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "said inside" in shown.stdout


def interpreter_around(base: Path) -> Path:
    """In an environment that holds `base`, and so whatever ARL keeps below it."""
    (base / "bin").mkdir(parents=True)
    python = base / "bin" / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    home = os.path.dirname(os.path.realpath(sys.executable))
    (base / "pyvenv.cfg").write_text(f"home = {home}\n")
    return python


def test_an_interpreter_that_holds_the_ledger_is_refused(tmp_path: Path) -> None:
    base = tmp_path / "venv"
    python = interpreter_around(base)
    service = open_service(base)
    target = BubblewrapTarget(base / ".arl" / "bubblewrap", service.store, host="here")
    program = Program(argv=("{python}", "-c", "pass"), python=str(python))
    with pytest.raises(InvalidInput, match="which holds ARL's own directory"):
        target.launch(attempt(program))
    target.close()
    service.close()


def test_what_a_target_will_never_launch_is_not_tried_again(tmp_path: Path) -> None:
    base = tmp_path / "venv"
    python = interpreter_around(base)
    service = open_service(base)
    study_id = submit(
        service,
        base,
        program={"kind": "command", "argv": ["{python}", "-c", "pass"], "python": str(python)},
        **SANDBOXED,
    )
    study = drive(service, study_id)
    with service.ledger.read() as session:
        trials = [item.trial for item in reads.list_trials(session, study_id).items]
        attempts = [a for t in trials for a in reads.get_trial(session, t.id).attempts]
    service.close()
    end_supervisors(base)
    assert (study.state, study.reason) == (StudyState.FAILED, Reason.BASELINE_FAILED)
    assert "which holds ARL's own directory" in study.detail
    assert [a.reason for a in attempts] == [Reason.LAUNCH_FAILED] * len(trials)
