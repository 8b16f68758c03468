"""What bubblewrap's end says about the program that ran inside, or did not."""

from pathlib import Path

import pytest

from targets import layout
from targets.enclosed import Enclosed, Verdict

STARTED = b'{ "child-pid": 7, "ipc-namespace": 1 }\n'


def enclosed(tmp_path: Path, status: bytes, log: str = "") -> Enclosed:
    (tmp_path / layout.LOG).write_text(log)
    made = Enclosed(str(tmp_path), [])
    for at in range(0, len(status), 10):  # it comes in pieces
        made.write(status[at : at + 10])
    return made


@pytest.mark.parametrize(
    ("code", "meant"), [(0, 0), (1, 1), (127, 127), (128, 128), (137, -9), (143, -15), (255, 255)]
)
def test_a_signal_inside_is_told_as_one(tmp_path: Path, code: int, meant: int) -> None:
    said = STARTED + b'{ "exit-code": %d }\n' % code
    assert enclosed(tmp_path, said).conclude(code) == Verdict(meant)


@pytest.mark.parametrize("status", [-9, None])
def test_a_killed_bubblewrap_ended_as_it_did(tmp_path: Path, status: int | None) -> None:
    assert enclosed(tmp_path, STARTED).conclude(status) == Verdict(status)


def test_a_program_that_is_not_there_failed_to_launch(tmp_path: Path) -> None:
    log = "bwrap: execvp /no/such: No such file or directory\n"
    assert enclosed(tmp_path, STARTED, log).conclude(1) == Verdict(
        None, failure="cannot run /no/such: No such file or directory"
    )


def test_a_sandbox_that_was_not_made_is_trouble_and_no_exit_code(tmp_path: Path) -> None:
    log = "bwrap: No permissions to create a new namespace\n"
    verdict = enclosed(tmp_path, b"", log).conclude(1)
    assert (verdict.status, verdict.failure) == (None, None)
    assert "No permissions to create a new namespace" in verdict.trouble


def test_a_program_that_ran_cannot_pass_for_a_broken_sandbox(tmp_path: Path) -> None:
    said = STARTED + b'{ "exit-code": 1 }\n'
    log = "bwrap: execvp /no/such: No such file or directory\n"
    assert enclosed(tmp_path, said, log).conclude(1) == Verdict(1)


def test_endless_talk_on_the_status_channel_is_cut(tmp_path: Path) -> None:
    made = enclosed(tmp_path, STARTED)
    for _ in range(100):
        made.write(b"x" * 65536)
    assert len(made._said) <= 4096
