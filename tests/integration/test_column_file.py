"""The file that keeps columns: used again after a start, and never trusted beyond the ledger."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bulk_ledger import Shape, fill
from ledger import column_file, sort_columns
from ledger.column_file import ColumnFile, Kept
from ledger.database import Ledger, open_ledger
from ledger.sort_columns import SortColumns
from ledger.states import TrialState
from ledger.trial_fields import parse_condition
from ledger.trial_pages import TrialFilter, count_trials
from tests.column_pages import pages
from tests.ledger_builders import Driven, claim, submit

SPEC: dict[str, Any] = {
    "objective": {"metric": "loss", "direction": "minimize"},
    "space": {"lr": {"type": "float", "low": 0, "high": 1}},
}


@pytest.fixture
def ledger(sqlite_ledger: Ledger) -> Ledger:
    return sqlite_ledger


@pytest.fixture
def file(ledger: Ledger, tmp_path: Path) -> Iterator[ColumnFile]:
    opened = ColumnFile(tmp_path / "columns", ledger.id)
    yield opened
    opened.close()


@pytest.fixture
def columns(file: ColumnFile) -> SortColumns:
    return SortColumns(file)


def same_pages(ledger: Ledger, columns: SortColumns, sort: str, study: str = "bulk") -> bool:
    asked: dict[str, Any] = {"sort": sort, "descending": True}
    kept = list(pages(ledger, columns, study, **asked))
    return kept == list(pages(ledger, None, study, **asked))


def test_columns_are_let_go_of_beyond_what_may_be_kept(
    ledger: Ledger, file: ColumnFile, columns: SortColumns, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger, Shape(trials=30))
    monkeypatch.setattr(sort_columns, "PLACES_KEPT", 70)
    for sort in ("params.p0", "params.p1", "params.p2", "params.p0"):
        assert same_pages(ledger, columns, sort)
        with file.open() as opened:
            assert opened.execute("SELECT count(*) FROM places").fetchone()[0] <= 70


def test_names_that_nothing_has_fill_no_file(
    ledger: Ledger, file: ColumnFile, columns: SortColumns, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger, Shape(trials=30))
    monkeypatch.setattr(sort_columns, "COLUMNS_KEPT", 3)
    for n in range(9):
        assert same_pages(ledger, columns, f"metrics.none-{n}")
    assert same_pages(ledger, columns, "params.p0")
    with file.open() as opened:
        found = opened.execute("SELECT name FROM kept ORDER BY id").fetchall()
    assert [name for (name,) in found] == ["metrics.none-7", "metrics.none-8", "params.p0"]


def test_a_column_that_is_let_go_of_under_a_page_leaves_the_page_whole(
    ledger: Ledger, file: ColumnFile, columns: SortColumns, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger, Shape(trials=30))
    assert same_pages(ledger, columns, "params.p0")
    extended = SortColumns._extended

    def then_gone(self: SortColumns, *args: Any, **named: Any) -> Kept | None:
        kept = extended(self, *args, **named)
        with file.open() as opened:
            opened.execute("DELETE FROM places")
            opened.execute("DELETE FROM kept")
        return kept

    monkeypatch.setattr(SortColumns, "_extended", then_gone)
    assert same_pages(ledger, columns, "params.p0")
    below = TrialFilter(conditions=[parse_condition("params.p0<0.2")])
    with ledger.read() as session:
        counts = [count_trials(session, "bulk", below, known) for known in (columns, None)]
    assert counts[0] == counts[1] > 0


def test_a_server_that_starts_again_reads_no_ended_trial_again(
    ledger: Ledger, columns: SortColumns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger, Shape(trials=30))
    assert same_pages(ledger, columns, "scores.cost")
    again = ColumnFile(tmp_path / "columns", ledger.id)
    monkeypatch.setattr(again, "extend", lambda *_: pytest.fail("it was read again"))
    assert same_pages(ledger, SortColumns(again), "scores.cost")
    again.close()


def test_a_ledger_put_back_to_an_older_point_is_read_anew(ledger: Ledger, tmp_path: Path) -> None:
    older = tmp_path / "older.db"
    submit(ledger, spec=SPEC)
    study = Driven(ledger, "s1", claim(ledger))
    study.run_study()
    end_trial(study, 0, lr=0.5)
    with closing(sqlite3.connect(older)) as copy, closing(sqlite3.connect(ledger.where)) as now:
        now.backup(copy)
    for number in range(1, 6):
        end_trial(study, number, lr=number / 10)
    file = ColumnFile(tmp_path / "columns", ledger.id)
    assert same_pages(ledger, SortColumns(file), "params.lr", "s1")
    other = open_ledger(older, create=False)
    study = Driven(other, "s1", study.fence, finished=1)
    for number in range(1, 8):
        end_trial(study, number, lr=1 - number / 10)
        again = ColumnFile(tmp_path / "columns", ledger.id)
        assert same_pages(other, SortColumns(again), "params.lr", "s1")
        again.close()
    file.close()
    other.close()


def end_trial(study: Driven, number: int, *, lr: float) -> None:
    params: dict[str, Any] = {"lr": lr}
    study.record(study.proposed(number, params=params), study.launching(number))
    study.record(study.started(number), study.ended(number, TrialState.RUNNING))


def test_columns_that_lie_ahead_of_the_ledger_for_long_are_read_anew(
    ledger: Ledger, file: ColumnFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger, Shape(trials=30))
    assert same_pages(ledger, SortColumns(file), "params.p0")
    with file.open() as opened:
        opened.execute("UPDATE kept SET head_seq = head_seq + 10, head_digest = 'other'")
    assert same_pages(ledger, SortColumns(file), "params.p0")
    with file.open() as opened:  # it may be another process, which sees further
        assert opened.execute("SELECT head_digest FROM kept").fetchone()[0] == "other"
    monkeypatch.setattr(column_file, "_SETTLED_S", -1.0)
    assert same_pages(ledger, SortColumns(file), "params.p0")
    with file.open() as opened:
        assert opened.execute("SELECT head_digest FROM kept").fetchone()[0] != "other"


@pytest.mark.parametrize("damage", ["garbage", "no room", "no folder", "locked"])
def test_without_a_usable_file_the_database_sorts(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    fill(ledger, Shape(trials=30))
    folder = tmp_path / "columns"
    if damage == "no room":
        monkeypatch.setattr(column_file, "LEAST_FREE_BYTES", 1 << 60)
    if damage == "no folder":
        folder.write_text("a file")
    file = ColumnFile(folder, ledger.id)
    if damage == "garbage":
        folder.mkdir()
        (folder / f"columns-{column_file.FORMAT}-{ledger.id}.db").write_bytes(b"\xff" * 8192)
    if damage == "locked":
        monkeypatch.setattr(column_file, "_BUSY_S", 0.0)
        with file.open() as opened, column_file.transaction(opened):
            other = ColumnFile(folder, ledger.id)
            assert same_pages(ledger, SortColumns(other), "params.p0")
            other.close()
    assert same_pages(ledger, SortColumns(file), "params.p0")
    if damage in ("garbage", "locked"):  # it mended itself
        with file.open() as opened:
            assert opened.execute("SELECT sum(places) FROM kept").fetchone()[0] == 30
    file.close()
