"""The command that runs every group of tests: side by side, counted, a failure tried once more."""

import re
import sys
import time
from pathlib import Path

import pytest

from scripts import group_runs
from scripts.check import Lanes, report
from scripts.group_runs import Group, GroupRun, Outcome

FLAKY = """
from pathlib import Path

def test_passes_only_on_the_second_try():
    seen = Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first try")

def test_passes():
    pass
"""
FAILING = "def test_fails():\n    assert 1 == 2\n"


def outcomes(
    place: Path, groups: list[Group], *, lanes: int, strict: bool = True
) -> list[Outcome]:
    runs = [GroupRun(group, (), False, place) for group in groups]
    Lanes(runs, lanes=lanes, strict=strict).run()
    return [run.outcome for run in runs]


def group_of(place: Path, name: str, text: str) -> Group:
    folder = place / name
    folder.mkdir()
    (folder / f"test_{name}.py").write_text(text)
    return Group(name, 60, paths=(str(folder),), marker="not gpu")


@pytest.mark.parametrize("lanes", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_test_that_passes_on_the_second_try_is_called_unsteady(
    tmp_path: Path, lanes: int
) -> None:
    groups = [group_of(tmp_path, "flaky", FLAKY), group_of(tmp_path, "failing", FAILING)]
    flaky, failing = outcomes(tmp_path, groups, lanes=lanes)
    assert (flaky.status, flaky.passed, flaky.failed) == ("passed", 2, 0)
    assert flaky.note == "UNSTEADY: 1 passed only on the second try"
    assert (failing.status, failing.passed, failing.failed) == ("failed", 0, 1)
    assert [line.rpartition("/")[2] for line in (*flaky.broken, *failing.broken)] == [
        "test_flaky.py::test_passes_only_on_the_second_try - AssertionError: the first try",
        "test_failing.py::test_fails - assert 1 == 2",
    ]


def test_the_summary_ends_with_what_failed_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(outcomes(tmp_path, [group_of(tmp_path, "failing", FAILING)], lanes=1), 1.0)
    _, _, end = capsys.readouterr().out.partition("\nFailed, once at least:\n")
    assert re.fullmatch(
        r"  failing: \S*test_failing\.py::test_fails - assert 1 == 2\n\n"
        r"total: 0 passed, 1 failed, 0 skipped\n",
        end,
    )


def test_two_groups_run_side_by_side(tmp_path: Path) -> None:
    meet = (
        "import sys, time, pathlib\n"
        "pathlib.Path(sys.argv[1]).touch()\n"
        "end = time.monotonic() + 20\n"
        "while not pathlib.Path(sys.argv[2]).exists():\n"
        "    assert time.monotonic() < end\n"
        "    time.sleep(.01)\n"
    )
    here, there = str(tmp_path / "a"), str(tmp_path / "b")
    groups = [
        Group(name, 30, commands=((sys.executable, "-c", meet, *files),))
        for name, files in (("one", (here, there)), ("two", (there, here)))
    ]
    assert [o.status for o in outcomes(tmp_path, groups, lanes=2)] == ["passed", "passed"]


def test_a_group_that_cannot_run_fails_only_where_everything_must(tmp_path: Path) -> None:
    group = Group("absent", 10, commands=(("false",),), missing=lambda: "install it")
    assert outcomes(tmp_path, [group], lanes=1)[0].status == "failed"
    assert outcomes(tmp_path, [group], lanes=1, strict=False)[0].status == "not run"


def test_a_group_far_over_its_budget_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_runs, "KILL_AFTER_BUDGETS", 1)
    started = time.monotonic()
    group = Group("endless", 1, commands=(("sleep", "60"),))
    assert outcomes(tmp_path, [group], lanes=1)[0].status == "failed"
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_group_whose_run_breaks_has_failed_and_the_others_still_run(
    tmp_path: Path, lanes: int
) -> None:
    broken = [
        Group(name, 10, commands=((str(tmp_path / "no such program"),),))
        for name in ("one", "two", "three")
    ]
    found = outcomes(tmp_path, [*broken, Group("good", 10, commands=(("true",),))], lanes=lanes)
    assert [(o.status, o.failed) for o in found] == [("failed", 1)] * 3 + [("passed", 0)]


def test_a_group_that_is_stopped_as_it_starts_leaves_no_process(tmp_path: Path) -> None:
    class StoppedAtOnce(GroupRun):
        def say(self, text: str) -> None:
            self.stop()  # between the look whether it is stopped and the start

    run = StoppedAtOnce(Group("late", 60, commands=(("sleep", "60"),)), (), False, tmp_path)
    started = time.monotonic()
    assert run.execute(("sleep", "60")) is None
    assert time.monotonic() - started < 20
