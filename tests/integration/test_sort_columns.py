"""Lists that are cut out of kept columns: the same pages as the database makes, at any moment."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ledger import reads, sort_columns
from ledger.column_file import ColumnFile
from ledger.database import Ledger
from ledger.records import Split, Verdict
from ledger.sort_columns import SortColumns
from ledger.states import TrialState
from ledger.trial_fields import parse_condition
from ledger.trial_pages import TrialFilter, count_trials
from tests.column_pages import pages
from tests.ledger_builders import Driven, claim, submit

SORTS = (
    "params.lr",
    "params.opt",
    "params.on",
    "params.none",
    "scores.accuracy",
    "metrics.loss",
    "metrics.gone",
    "wall_s",
    "created",
)
FILTERS = (
    TrialFilter(),
    TrialFilter(outcomes=["kept", "running", "proposed"]),
    TrialFilter(conditions=[parse_condition("params.lr>0.4")]),
    TrialFilter(
        conditions=[parse_condition("metrics.loss<=0.6"), parse_condition("params.opt=a")]
    ),
    TrialFilter(
        conditions=[parse_condition("metrics.loss!=0.5"), parse_condition("params.on=true")]
    ),
    TrialFilter(conditions=[parse_condition("scores.accuracy=0.5")]),
)
SPEC: dict[str, Any] = {
    "objective": {"metric": "loss", "direction": "minimize"},
    "space": {
        "lr": {"type": "float", "low": 0, "high": 1},
        "opt": {"type": "categorical", "choices": ["a", "b", "ä", "B", 1, ""]},
        "on": {"type": "categorical", "choices": [True, False]},
    },
}


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_columns, "STRETCH", 3)
    monkeypatch.setattr(sort_columns, "_TAKEN", 2)
    monkeypatch.setattr(sort_columns, "_NAMED", 6)
    monkeypatch.setattr(sort_columns, "_TRIED", (2, 4))


@pytest.fixture
def file(ledger: Ledger, tmp_path: Path) -> Iterator[ColumnFile]:
    opened = ColumnFile(tmp_path / "columns", ledger.id)
    yield opened
    opened.close()


@pytest.fixture
def columns(file: ColumnFile) -> SortColumns:
    return SortColumns(file)


def test_kept_columns_give_the_pages_that_the_database_gives_while_trials_run(
    ledger: Ledger, columns: SortColumns
) -> None:
    submit(ledger, spec=SPEC)
    study = Driven(ledger, "s1", claim(ledger))
    study.run_study()
    rng, running = random.Random(5), list[int]()
    for number in range(15):
        params: dict[str, Any] = {"lr": rng.choice([0.5, 0.25, 0.75, 1])}
        params |= {"opt": rng.choice(["a", "b", "ä", "B", 1, ""]), "on": rng.random() < 0.5}
        study.record(study.proposed(number, params=params), study.launching(number))
        study.record(study.started(number))
        running.append(number)
        loss = rng.choice([0.5, 0.25, float("nan"), 0.75])
        study.record(study.values(number, 0, [(1, "loss", loss)]))
        while len(running) > rng.randrange(4):
            finish(study, running.pop(rng.randrange(len(running))), rng)
        if number % 3 == 2:
            asked = rng.sample(SORTS, 2), rng.sample(FILTERS, 2)
            assert differing(ledger, columns, *asked) == []
    assert differing(ledger, columns, rng.sample(SORTS, 4), FILTERS[:4]) == []


def finish(study: Driven, number: int, rng: random.Random) -> None:
    if rng.random() < 0.3:
        study.record(study.values(number, 1, [(2, "loss", rng.random())]))
        study.record(study.ended(number, TrialState.RUNNING))
        return
    study.record(study.exited(number), study.saved(number))
    study.record(study.launching(number, split=Split.SEARCH))
    study.record(
        study.started(number, split=Split.SEARCH),
        study.exited(number, split=Split.SEARCH),
        study.scored(number, 0.5, items=(0.5, 0.5)),
        study.decided(number, 0.5, verdict=Verdict.DISCARD),
    )


def differing(
    ledger: Ledger, columns: SortColumns, sorts: Sequence[str], filters: Sequence[TrialFilter]
) -> list[dict[str, Any]]:
    """The lists that are not what the database makes of them."""
    wrong = []
    for where in filters:
        with ledger.read() as session:
            counts = [count_trials(session, "s1", where, known) for known in (columns, None)]
        for sort in ("number", *sorts):
            for descending in (False, True):
                asked = {"where": where, "sort": sort, "descending": descending}
                found = list(pages(ledger, columns, "s1", **asked))
                wanted = list(pages(ledger, None, "s1", **asked))
                if found != wanted or counts != [sum(map(len, wanted))] * 2:
                    wrong.append(asked)
    return wrong


def test_trials_that_end_between_two_pages_neither_repeat_nor_hide_others(
    ledger: Ledger, columns: SortColumns
) -> None:
    submit(ledger, spec=SPEC)
    study = Driven(ledger, "s1", claim(ledger))
    study.run_study()
    for number in range(20):
        params = {"lr": number * 7 % 20 / 20, "opt": "a", "on": True}
        study.record(study.proposed(number, params=params), study.launching(number))
        study.record(study.started(number))
    for descending in (False, True):
        seen, left = list[int](), list(range(10 * descending, 10))
        for page in pages(ledger, columns, "s1", sort="params.lr", descending=descending):
            seen += page
            for number in left[:3]:
                study.record(study.ended(number, TrialState.RUNNING))
            left = left[3:]
        wanted = sorted(range(20), key=lambda n: n * 7 % 20, reverse=descending)
        assert seen == wanted


def test_a_reader_of_an_older_moment_sees_what_was_there_then(
    ledger: Ledger, columns: SortColumns
) -> None:
    submit(ledger, spec=SPEC)
    study = Driven(ledger, "s1", claim(ledger))
    study.run_study()
    study.whole_trial(0, 0.5)
    study.record(study.proposed(1, params={"lr": 0.9}), study.launching(1))
    study.record(study.started(1))
    study.record(study.values(1, 0, [(1, "loss", 0.1)]))
    asked: dict[str, Any] = {"sort": "metrics.loss", "columns": columns}
    with ledger.read() as older:
        reads.get_study(older, "s1")  # its moment is now
        study.record(study.values(1, 1, [(2, "loss", 0.9)]))
        study.record(study.ended(1, TrialState.RUNNING))
        study.whole_trial(2, 0.3)
        with ledger.read() as newer:
            now = reads.list_trials(newer, "s1", **asked)
        then = reads.list_trials(older, "s1", **asked)
    assert [item.trial.number for item in now.items] == [2, 0, 1]
    assert [item.trial.number for item in then.items] == [1, 0]
