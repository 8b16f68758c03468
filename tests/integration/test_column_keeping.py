"""What is kept before anybody asks: the same as for whoever asks, and no more than fits."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from benchmarks.bulk_ledger import TABLES, Shape, add_trials, fill
from benchmarks.bulk_rows import entry_digest
from controller.api import keeping
from controller.api.keeping import Keeping
from controller.api.plot_data import PlotData
from controller.api.tallies import Tallies
from ledger import column_keeping, outcome_counts, reads
from ledger.column_file import ColumnFile
from ledger.column_keeping import fields_of, keep_columns
from ledger.database import Ledger
from ledger.outcome_counts import OutcomeCount, OutcomeCounts
from ledger.sort_columns import SortColumns
from ledger.trial_fields import Field, parse_field

FIRST = Shape(trials=60)
SECOND = replace(FIRST, first=60, ended=60, trials=20, head_seq=FIRST.seq_of(60))
STRETCH = 25


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_keeping, "WORTH", (1, 1))
    monkeypatch.setattr(column_keeping, "STRETCHES", (STRETCH, STRETCH))
    monkeypatch.setattr(outcome_counts, "STORED_AFTER", 1)


@pytest.fixture
def bulk(sqlite_ledger: Ledger) -> Ledger:
    fill(sqlite_ledger, FIRST)
    return sqlite_ledger


@pytest.fixture
def file(tmp_path: Path) -> Iterator[ColumnFile]:
    opened = ColumnFile(tmp_path / "columns", "ledger")
    yield opened
    opened.close()


def add_more(bulk: Ledger) -> None:
    add_trials(bulk, SECOND)
    head = SECOND.seq_of(80)
    with bulk.write() as session:
        studies = TABLES["studies"]
        changed = update(studies).values(head_seq=head, head_digest=entry_digest(head))
        session.connection.execute(changed)


def keep_all(bulk: Ledger, file: ColumnFile) -> None:
    for _ in range(1000):
        with bulk.read() as session:
            if not keep_columns(session, reads.get_study(session, "bulk"), file):
                return
    raise AssertionError("it never ends")


def fields(bulk: Ledger) -> list[Field]:
    with bulk.read() as session:
        return fields_of(session, reads.get_study(session, "bulk"))


def ask(bulk: Ledger, file: ColumnFile, *asked: Field) -> None:
    with bulk.read() as session:
        study, columns = reads.get_study(session, "bulk"), SortColumns(file)
        assert all(columns.sorted(session, study, field) is not None for field in asked)


def kept_columns(file: ColumnFile) -> dict[str, list[tuple[Any, int]]]:
    found: dict[str, list[tuple[Any, int]]] = {}
    with file.open() as opened:
        named = opened.execute("SELECT id, name FROM kept WHERE data IS NULL").fetchall()
        for kept, name in named:
            query = "SELECT key, number FROM places WHERE kept = ? ORDER BY key, number"
            found[name] = opened.execute(query, (kept,)).fetchall()
    return found


def is_kept(bulk: Ledger, file: ColumnFile, plots: PlotData, trials: int) -> bool:
    with bulk.read() as session:
        study = reads.get_study(session, "bulk")
        is_counted = not plots.is_behind(session, study, trials, 1)
    return is_counted and len(kept_columns(file).get("created", ())) == trials


def counted(bulk: Ledger, counts: OutcomeCounts) -> list[OutcomeCount]:
    with bulk.read() as session:
        return counts.of(session, reads.get_study(session, "bulk"))


def test_what_is_kept_unasked_is_what_is_kept_for_whoever_asks(
    ledger: Ledger, file: ColumnFile, tmp_path: Path
) -> None:
    fill(ledger, FIRST)
    ask(ledger, file, parse_field("params.p1"))  # further than the others
    keep_all(ledger, file)
    add_more(ledger)
    keep_all(ledger, file)
    other = ColumnFile(tmp_path / "asked", ledger.id)
    ask(ledger, other, *fields(ledger))
    kept = kept_columns(file)
    assert kept == kept_columns(other)
    assert {len(places) for places in kept.values()} >= {FIRST.trials + SECOND.trials}
    for name in ("wall_s", "created", "params.optimizer", "scores.cost", "metrics.m9"):
        assert kept[name]
    other.close()


def test_no_column_is_made_unasked_where_it_does_not_fit(
    bulk: Ledger, file: ColumnFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(bulk, file, parse_field("params.p1"))
    monkeypatch.setattr(column_keeping, "PLACES_KEPT", 3.9 * FIRST.trials / column_keeping.ROOM)
    keep_all(bulk, file)
    assert sorted(kept_columns(file)) == ["created", "params.p1", "wall_s"]
    add_more(bulk)
    keep_all(bulk, file)
    lengths = {len(places) for places in kept_columns(file).values()}
    assert lengths == {FIRST.trials + SECOND.trials}


def test_a_column_that_nobody_asked_for_goes_first(bulk: Ledger, file: ColumnFile) -> None:
    keep_all(bulk, file)
    ask(bulk, file, parse_field("params.p3"))
    with bulk.read() as session:
        study = reads.get_study(session, "bulk")
        kept = file.find(session, study, "params.p5", is_asked=False)
    assert kept is not None
    file.trim(2, 10**9, kept)
    assert sorted(kept_columns(file)) == ["params.p3", "params.p5"]


def test_counts_go_on_from_the_file_after_a_start(
    bulk: Ledger, file: ColumnFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert counted(bulk, OutcomeCounts(file)) == counted(bulk, OutcomeCounts())
    add_more(bulk)
    asked: list[int] = []
    count = outcome_counts._count

    def noted(*which: Any) -> Any:
        asked.append(len(which) - 2)
        return count(*which)

    monkeypatch.setattr(outcome_counts, "_count", noted)
    found = counted(bulk, OutcomeCounts(file))
    assert 0 not in asked  # without a condition it counts every trial
    assert found == counted(bulk, OutcomeCounts())
    assert sum(one.count for one in found) == FIRST.trials + SECOND.trials


def test_counts_of_a_later_moment_are_not_told_to_an_earlier_session(
    bulk: Ledger, file: ColumnFile
) -> None:
    with bulk.read() as session:
        study = reads.get_study(session, "bulk")
        before = OutcomeCounts().of(session, study)
        add_more(bulk)
        counted(bulk, OutcomeCounts(file))
        assert OutcomeCounts(file).of(session, study) == before


def test_the_keeper_keeps_what_ends_while_it_runs(
    bulk: Ledger, file: ColumnFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "EVERY_S", 0.01)
    wanted, plots = len(fields(bulk)), PlotData(file)
    with Keeping(bulk, file, plots, Tallies(file)).beside():
        for trials in (FIRST.trials, FIRST.trials + SECOND.trials):
            until = time.monotonic() + 20
            while not is_kept(bulk, file, plots, trials):
                assert time.monotonic() < until
                time.sleep(0.01)
            if trials == FIRST.trials:
                add_more(bulk)
    assert len(kept_columns(file)) == wanted
