"""What plots need of ended trials, kept for a server that starts again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.bulk_ledger import Shape, add_trials, fill
from controller.api import plot_data
from controller.api.plot_data import PlotData
from ledger import reads
from ledger.column_file import ColumnFile
from ledger.database import Ledger
from ledger.records import Json

TRIALS = 60


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_data, "STORED_AFTER", 10)
    monkeypatch.setattr(plot_data, "SAMPLED", 20)


@pytest.fixture
def file(sqlite_ledger: Ledger, tmp_path: Path) -> Iterator[ColumnFile]:
    opened = ColumnFile(tmp_path / "columns", sqlite_ledger.id)
    yield opened
    opened.close()


def drawn(ledger: Ledger, data: PlotData) -> list[Json]:
    with ledger.read() as session:
        study = reads.find_study(session, "bulk")
        sample = data.sample(session, study)
        return [
            data.history(session, study, 30),
            data.arms(session, study),
            list(data.ordered(session, study)),
            list(data.best(session, study)),
            list(data.spread(session, study, 7)[0]),
            [sample.of, list(sample.numbers), list(sample.values), list(map(dict, sample.params))],
            data.length(session, study),
        ]


def anew(ledger: Ledger, folder: Path) -> list[Json]:
    file = ColumnFile(folder, ledger.id)
    found = drawn(ledger, PlotData(file))
    file.close()
    return found


def test_a_server_that_starts_again_draws_the_same_and_reads_no_ended_trial_again(
    sqlite_ledger: Ledger, file: ColumnFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sqlite_ledger, Shape(trials=TRIALS))
    first = drawn(sqlite_ledger, PlotData(file))
    monkeypatch.setattr(plot_data, "proposers_of", _nothing_read)
    monkeypatch.setattr(plot_data, "from_bytes", _whole(plot_data.from_bytes))
    assert drawn(sqlite_ledger, PlotData(file)) == first


def _nothing_read(session: object, study: object, columns: object, start: int) -> list[str]:
    assert start == TRIALS
    return []


def _whole(read: object) -> object:
    def checked(data: bytes) -> object:
        known = read(data)  # type: ignore[operator]
        assert len(known.columns) == TRIALS
        assert len(known.ordered) == len(known.summary.valued)
        return known

    return checked


def test_trials_that_ended_since_are_added_to_what_was_kept(
    sqlite_ledger: Ledger, file: ColumnFile, tmp_path: Path
) -> None:
    fill(sqlite_ledger, Shape(trials=TRIALS))
    drawn(sqlite_ledger, PlotData(file))
    for part, more in enumerate((3, 30)):
        first = TRIALS + 3 * part
        shape = Shape(trials=more, first=first, ended=first, head_seq=3 * first, seed=part + 1)
        add_trials(sqlite_ledger, shape)
        wanted = anew(sqlite_ledger, tmp_path / f"anew-{part}")
        assert wanted[-1] == first + more
        assert drawn(sqlite_ledger, PlotData(file)) == wanted


@pytest.mark.parametrize("damage", ["bytes", "head", "file"])
def test_what_cannot_be_trusted_is_computed_anew_and_once(
    sqlite_ledger: Ledger,
    file: ColumnFile,
    tmp_path: Path,
    damage: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(sqlite_ledger, Shape(trials=TRIALS))
    wanted = drawn(sqlite_ledger, PlotData(file))
    with file.open() as opened:
        if damage == "bytes":
            opened.execute("UPDATE kept SET data = CAST(x'00' || substr(data, 2) AS BLOB)")
        if damage == "head":
            opened.execute("UPDATE kept SET head_digest = 'other', data = NULL, last = 9")
    if damage == "file":
        file.close()
        path = next((tmp_path / "columns").glob("*.db"))
        path.write_bytes(b"no database" * 1000)
    fresh = ColumnFile(tmp_path / "columns", sqlite_ledger.id)
    assert drawn(sqlite_ledger, PlotData(fresh)) == wanted
    monkeypatch.setattr(plot_data, "proposers_of", _nothing_read)
    monkeypatch.setattr(plot_data, "from_bytes", _whole(plot_data.from_bytes))
    assert drawn(sqlite_ledger, PlotData(fresh)) == wanted
    fresh.close()
