"""Whose fault the end of a container was."""

import signal

import pytest

from targets.docker_container.verdict import Seen, Verdict, code_of, judge

KILLED = 128 + signal.SIGKILL


def seen(**what: object) -> Seen:
    return Seen(**{"status": 0, "shell": "arl-0f", **what})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "code"), [(0, 0), (7, 7), (137, -9), (143, -15), (128, 128), (255, 255)]
)
def test_a_signal_is_a_negative_code(status: int, code: int) -> None:
    assert code_of(status) == code
    assert code_of(None) is None


def test_a_program_that_just_ended_has_exited() -> None:
    assert judge(seen(status=3)) == Verdict("exited", 3)
    assert judge(seen(status=KILLED)) == Verdict("exited", -9, "killed by SIGKILL")


def test_what_the_keeper_did_comes_before_what_else_is_known() -> None:
    said = judge(seen(asked="deadline", status=KILLED, was_out_of_memory=True, was_cut_off=True))
    assert (said.cause, said.code) == ("deadline", -9)
    assert judge(seen(asked="killed", status=None)) == Verdict("killed", None)


def test_memory_of_a_child_alone_is_found_whatever_the_program_said() -> None:
    assert judge(seen(status=0, was_out_of_memory=True)).cause == "out_of_memory"
    assert judge(seen(status=KILLED, was_out_of_memory=True)).cause == "out_of_memory"


@pytest.mark.parametrize("status", [0, 5, KILLED, 143])
def test_an_engine_that_ends_containers_is_to_blame_for_whatever_ended_meanwhile(
    status: int,
) -> None:
    assert judge(seen(status=status, was_cut_off=True)).cause == "lost"


@pytest.mark.parametrize(
    ("status", "cause"), [(0, "exited"), (5, "exited"), (139, "exited"), (KILLED, "lost")]
)
def test_an_engine_with_live_restore_is_to_blame_for_what_only_engines_do(
    status: int, cause: str
) -> None:
    assert judge(seen(status=status, was_cut_off=True, survives_engine=True)).cause == cause


def test_a_container_ended_or_removed_by_somebody_else_is_lost() -> None:
    assert judge(seen(status=KILLED, was_ended_from_outside=True)).cause == "lost"
    assert judge(seen(status=None, is_gone=True)).cause == "lost"


def test_processes_and_data_are_the_programs_own_fault() -> None:
    assert judge(seen(status=2, was_out_of_processes=True)).cause == "too_many_processes"
    said = judge(seen(status=0, excess="its output held 9 bytes"))
    assert said == Verdict("too_much_data", 0, "its output held 9 bytes")


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("arl-0f: 1: exec: no-such: not found", "cannot run no-such: not found"),
        ("arl-0f: line 1: exec: no-such: not found", "cannot run no-such: not found"),
        ("arl-0f: line 1: /x: Permission denied", "cannot run /x: Permission denied"),
    ],
)
def test_a_shell_that_could_not_execute_the_program_is_a_failed_launch(
    line: str, detail: str
) -> None:
    assert judge(seen(status=127, last_line=line)) == Verdict("launch_failed", None, detail)


def test_an_image_without_a_shell_is_a_failed_launch() -> None:
    line = "[FATAL tini (7)] exec /bin/sh failed: No such file or directory"
    said = judge(seen(status=127, last_line=line))
    assert said.cause == "launch_failed"
    assert "/bin/sh failed: No such file" in said.detail


def test_a_program_cannot_pass_its_own_failure_off_as_the_shells() -> None:
    """The shell's name is drawn anew for every container."""
    for line in ("arl: 1: exec: x: not found", "arl-00: 1: exec: x: not found", ""):
        assert judge(seen(status=127, last_line=line)) == Verdict("exited", 127)
    assert judge(seen(status=1, last_line="arl-0f: x: not found")) == Verdict("exited", 1)


def test_the_stopped_code_counts_only_after_a_request() -> None:
    assert judge(seen(status=42)).cause == "exited"
    assert judge(seen(status=42, was_told_to_stop=True)).cause == "stopped"
    assert judge(seen(status=0, was_told_to_stop=True)).cause == "exited"
