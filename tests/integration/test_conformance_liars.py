"""The self-check names what a target does not keep: each of these lies in one way."""

import os
import sys
from pathlib import Path

import pytest

from ledger.artifacts import ArtifactStore
from targets.conformance.canaries import Listeners
from targets.conformance.setting import Setup
from targets.conformance.suite import LAST, choose, run_checks
from targets.conformance.verdicts import Outcome
from targets.local_process import LocalProcessTarget
from tests import lying_targets as lying
from tests.target_runs import end_supervisor, require_bubblewrap


def failures(kind: type[LocalProcessTarget], checks: list[str], tmp_path: Path) -> dict[str, str]:
    """What was found not to hold, by the check's name."""
    if kind.__mro__[1] is not LocalProcessTarget:
        require_bubblewrap()
    store, root, work = ArtifactStore(tmp_path / "s"), tmp_path / "root", tmp_path / "w"
    work.mkdir()
    setup = Setup(
        open_target=lambda: kind(root, store, host="here"),
        shelf=store,
        work=work,
        owner="doctor-test",
        python=sys.executable,
        roots=(root,),
    )
    try:
        findings = run_checks(setup, choose(checks))
    finally:
        end_supervisor(root)
    assert [f.check for f in findings] == [c.name for c in choose(checks)] + [LAST]
    return {f.check: f.detail for f in findings if f.outcome is Outcome.FAILS}


LIES = [
    (lying.Doubling, "launched twice", "nobody launched"),
    (lying.Doubling, LAST, "nobody launched"),
    (lying.Leaking, "tree after an exit", "1 processes of it live on"),
    (lying.Hasty, "tree after a kill", "live on after its end was told"),
    (lying.Forgetful, "adoption", "does not have it"),
    (lying.Hoarding, "release", "still has it after its release"),
    (lying.Hoarding, LAST, "list_owned still has"),
    (lying.Talkative, "environment", "the controller's secret in ARL_SECRET_DOCTOR_CANARY"),
    (lying.Generous, "score", "a training program found a score channel"),
    (lying.Deaf, "stop request", "did not end"),
    (lying.Flattering, "exit code", "was told as exited with code 0"),
    (lying.Flattering, "signals", "ended as exited with code -9"),
    (lying.Flattering, "missing program", "launch_failed"),
    (lying.Headless, "log", "the head of its log is gone"),
    (lying.Repeating, "reports", "steps 1, 2, 3 were reported"),
]


@pytest.mark.parametrize(("kind", "check", "words"), LIES)
def test_a_target_that_lies_is_caught_by_the_check_for_it(
    kind: type[LocalProcessTarget],
    check: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("targets.conformance.stage.PATIENCE_S", 4.0)
    monkeypatch.setattr("targets.conformance.stage.END_PATIENCE_S", 2.0)
    monkeypatch.setattr("targets.conformance.suite.END_PATIENCE_S", 0.5)
    tried = "release" if check == LAST else check
    found = failures(kind, [tried], tmp_path)
    assert words in found.get(check, f"nothing but {found}")


def test_a_plain_process_that_calls_itself_a_sandbox_is_caught_everywhere(tmp_path: Path) -> None:
    checks = ["interfaces", "loopback", "files of the machine", "other processes", "scratch"]
    checks += ["labels", "egress"]
    if os.geteuid() == 0:  # an ordinary user cannot write to the system either
        checks.append("read-only")
    found = failures(lying.Boastful, checks, tmp_path)
    assert set(found) == set(checks)
    assert "127.0.0.1" in found["loopback"]
    assert "an abstract socket" in found["loopback"]
    assert "udp" in found["loopback"]
    assert "secret in another process" in found["other processes"]
    assert "ARL's own directory" in found["files of the machine"]
    assert not list(Path("/tmp").glob("arl-doctor-left-*"))


@pytest.mark.bubblewrap
def test_limits_that_nobody_enforces_are_named_one_by_one(tmp_path: Path) -> None:
    limits = ["memory", "memory of a child", "size of the output", "size of the scratch"]
    found = failures(lying.Limitless, [*limits, "log", "report flood"], tmp_path)
    assert set(found) == {*limits, "log", "report flood"}
    assert "unharmed" in found["memory"]
    assert "bytes of its log are kept, of 65536" in found["log"]


@pytest.mark.bubblewrap
def test_a_deadline_that_nobody_enforces_is_named(tmp_path: Path) -> None:
    found = failures(lying.Timeless, ["deadline", "stall", "tree at the deadline"], tmp_path)
    assert set(found) == {"deadline", "stall", "tree at the deadline"}
    assert "ended as exited" in found["deadline"]
    assert "a silent program ended as exited, not as stalled" in found["stall"]


def test_what_a_program_may_not_reach_can_be_put_below_a_directory_of_any_length(
    tmp_path: Path,
) -> None:
    work = tmp_path / ("deep" * 20) / ("deeper" * 20)
    work.mkdir(parents=True)
    listeners = Listeners(work, "word")
    try:
        assert listeners.file.is_socket()
    finally:
        listeners.close()
    assert not listeners.file.exists()
