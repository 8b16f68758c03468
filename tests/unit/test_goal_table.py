"""The table of goals is written from what the benchmarks wrote, and says what was missed."""

from pathlib import Path

import pytest

from benchmarks.goal_parts import PARTS, Part
from benchmarks.goal_rows import ROWS
from benchmarks.goals import BEGIN, END, main, measure, table, write_page

RECORD = {
    "values": {
        "at": "2026-01-01 00:00 UTC",
        "took_s": 90,
        "load_before": 0.1,
        "machine": "2 cores, Python 3.11",
        "command": "python -m benchmarks.values",
        "rows": [
            {"what": "a", "goal": "1", "measured": "2", "peers": "b | c", "is_met": False},
            {"what": "d", "goal": "", "measured": "3", "peers": "", "is_met": None},
        ],
    }
}


def test_every_part_has_rows_and_all_rows_have_a_part() -> None:
    assert list(ROWS) == [part.name for part in PARTS]


def test_a_missed_goal_and_a_part_that_was_never_run_are_told() -> None:
    lines = table(RECORD).splitlines()
    assert "| a | 1 | 2 | **missed** | b \\| c |" in lines
    assert "| d |  | 3 |  |  |" in lines
    assert "| noop | never | | | | | |" in lines
    assert [line for line in lines if line.startswith("| values | 2026-01-01")] != []


def test_the_rest_of_the_page_stays_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_page(page, RECORD)
    assert page.read_text() == f"before\n{BEGIN}\n{table(RECORD)}\n{END}\nafter\n"


@pytest.mark.parametrize("text", ["none", f"{BEGIN}\n", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_its_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="are not there once each"):
        write_page(page, RECORD)
    assert page.read_text() == text


def test_a_part_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"No module named benchmarks\.there_is_none"):
        measure(Part(name="values", module="there_is_none", minutes=1), tmp_path, quick=False)


def test_an_unknown_part_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "'speed': name a part, one of noop, asking" in capsys.readouterr().err


@pytest.mark.parametrize(("taken_s", "is_met"), [(2.9, True), (3.1, False)])
def test_taking_over_is_judged_by_its_lease(taken_s: float, is_met: bool) -> None:
    runs = {"1": [{"per_s": 5.0, "errors": []}]}
    report = {"noop": runs, "asked": runs, "takeover_s": {"SIGKILL, lease 2 s": taken_s}}
    assert ROWS["workers"](report)[-1].is_met is is_met


def test_a_profile_is_judged_by_its_worst_noise() -> None:
    row = {
        "profile": "thorough",
        "alpha": 0.05,
        "noise": "normal",
        "effect_sd": 2.0,
        "final_false": 0.01,
        "final_false_low": 0.0,
        "final_false_high": 0.02,
        "final_power": 0.95,
        "coverage": 0.95,
        "bias": 0.0,
        "greedy_false": 0.9,
    }
    bad = {**row, "noise": "t3", "final_false": 0.06}
    false, power = ROWS["decisions"]({"rows": [row, bad]})
    assert (false.is_met, power.is_met) == (False, True)
    assert "t3" in false.measured
