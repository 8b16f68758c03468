"""Pages, counts and columns on both databases: the same answers from different SQL."""

from pathlib import Path

import pytest

from controller.api.trial_query import MOST_CONDITIONS
from ledger import entry_pages, family_pages, plot_reads, reads, study_pages, trial_pages
from ledger.attempt_reads import find_attempt, is_artifact, leased_studies, live_attempts
from ledger.chain_progress import ChainProgress, check_further
from ledger.column_file import ColumnFile, Key
from ledger.commit_watch import CommitWatch
from ledger.database import Ledger, ReadSession
from ledger.listing import count_studies
from ledger.model_call_pages import find_call, page_of_calls
from ledger.outcome_counts import OutcomeCounts
from ledger.records import Study, Verdict
from ledger.sort_columns import SortColumns, Sorted
from ledger.states import FamilyState, TrialState
from ledger.trial_extras import (
    attempt_counts,
    every_metric,
    last_metrics,
    metric_names,
    search_scores,
)
from ledger.trial_fields import Field, parse_condition
from ledger.trial_pages import TrialFilter
from tests.ledger_builders import MODEL, Driven, claim, submit

SPEC = {
    "name": "demo",
    "objective": {"metric": "loss", "direction": "minimize"},
    "space": {
        "lr": {"type": "float", "low": 0, "high": 1},
        "opt": {"type": "categorical", "choices": ["adam", "sgd"]},
        "on": {"type": "categorical", "choices": [True, False]},
    },
}


@pytest.fixture
def study(ledger: Ledger) -> Driven:
    submit(ledger, spec=SPEC)
    made = Driven(ledger, "s1", claim(ledger))
    made.run_study()
    for number, value in enumerate([0.5, 0.1, 0.9, 0.3]):
        made.whole_trial(number, value, verdict=Verdict.KEEP if number < 2 else Verdict.DISCARD)
    params = {"lr": 0.25, "opt": "sgd", "on": True}
    made.record(made.proposed(4, params=params, rationale="50% x_y"), made.launching(4))
    made.record(made.started(4))
    made.record(made.values(4, 0, [(1, "loss", float("nan")), (1, "a/b", 2.0)]))
    return made


def listed(study: Driven, sort: str = "number", **query: object) -> list[int]:
    where = query.pop("where", None)
    descending = bool(query.pop("descending", False))
    found: list[int] = []
    cursor = None
    with study.ledger.read() as session:
        while True:
            page = trial_pages.list_trials(
                session,
                "s1",
                where=where,  # type: ignore[arg-type]  # a filter or none
                sort=sort,
                descending=descending,
                cursor=cursor,
                limit=2,
            )
            found += [item.trial.number for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return found


def test_every_column_sorts_trials(study: Driven) -> None:
    assert listed(study, "value") == [1, 3, 0, 2, 4]
    assert listed(study, "value", descending=True) == [2, 0, 3, 1, 4]
    assert listed(study, "params.lr", descending=True) == [4, 3, 2, 1, 0]
    assert listed(study, "params.opt") == [4, 0, 1, 2, 3]
    assert listed(study, "scores.loss") == [1, 3, 0, 2, 4]
    assert listed(study, "metrics.loss", descending=True) == [2, 0, 3, 1, 4]
    assert listed(study, "metrics.a/b") == [4, 0, 1, 2, 3]
    assert listed(study, "created", descending=True) == [4, 3, 2, 1, 0]
    assert sorted(listed(study, "wall_s")) == [0, 1, 2, 3, 4]


def test_every_filter_asks_the_database(study: Driven) -> None:
    def where(*conditions: str, **fields: object) -> list[int]:
        asked = [parse_condition(condition) for condition in conditions]
        return listed(study, where=TrialFilter(conditions=asked, **fields))  # type: ignore[arg-type]  # as named

    assert where("value>=0.3", "value<0.9") == [0, 3]
    assert where("params.lr=0.25") == [4]
    assert where("params.opt=sgd") == where("params.on=true") == [4]
    assert where("params.opt!=sgd") == [0, 1, 2, 3]
    assert where("metrics.loss<=0.3") == [1, 3]
    assert where("metrics.a/b>1") == [4]
    assert where("scores.accuracy=0.5") == [0, 1, 2, 3]
    assert where(outcomes=["kept"]) == [0, 1]
    assert where(outcomes=["discarded", "running"]) == [2, 3, 4]
    assert where(text="50% X_Y") == [4]
    assert where(text="s1-t2") == [2]
    with study.ledger.read() as session:
        kept = TrialFilter(outcomes=["kept"])
        assert trial_pages.count_trials(session, "s1", kept) == 2


def test_a_number_among_words_is_found_by_what_it_is(ledger: Ledger) -> None:
    """A choice that is not all words: auto, or how many."""
    choices = ["auto", 1, 0.5, 1e-05, True, "1", "true"]
    spec = {**SPEC, "space": {"batch": {"type": "categorical", "choices": choices}}}
    submit(ledger, spec=spec)
    made = Driven(ledger, "s1", claim(ledger))
    made.run_study()
    for number, choice in enumerate(choices):
        made.record(made.proposed(number, params={"batch": choice}))

    def where(condition: str) -> list[int]:
        return listed(made, where=TrialFilter(conditions=[parse_condition(condition)]))

    assert where("params.batch=auto") == [0]
    assert where("params.batch=1") == [1, 5]
    assert where("params.batch=0.5") == where("params.batch=.50") == [2]
    assert where("params.batch=0.00001") == where("params.batch=1e-5") == [3]
    assert where("params.batch=true") == [4, 6]
    assert where("params.batch!=0.5") == [0, 1, 3, 4, 5, 6]
    assert where("params.batch=2") == where("params.batch=nan") == []


def test_as_many_conditions_as_may_be_asked_fit_one_statement(
    study: Driven, tmp_path: Path
) -> None:
    """Each names the trials that it found in a kept column; SQLite takes 32,766 values."""
    file = ColumnFile(tmp_path, study.ledger.id)
    asked = [parse_condition(f"params.lr>=-{number}") for number in range(MOST_CONDITIONS)]
    where = TrialFilter(conditions=asked)
    with study.ledger.read() as session:
        assert trial_pages.count_trials(session, "s1", where, ManyFound(file)) == 5
        found = trial_pages.list_trials(session, "s1", where=where, columns=ManyFound(file))
    assert len(found.items) == 5


class ManyFound(SortColumns):
    """Finds as many ended trials for any condition as it is asked for."""

    def sorted(self, session: ReadSession, study: Study, by: Field) -> Sorted | None:
        found = super().sorted(session, study, by)
        return found and ManySorted(found.file, found.kept, found.unfinished)


class ManySorted(Sorted):
    def numbers(self, operator: str, wanted: Key, limit: int) -> list[int] | None:
        return list(range(limit))


def test_studies_and_what_they_amount_to(study: Driven) -> None:
    submit(study.ledger, "s2", name="other")
    with study.ledger.read() as session:
        page = study_pages.page_of_studies(session, limit=1)
        assert [found.id for found in page.items] == ["s2"]
        rest = study_pages.page_of_studies(session, limit=1, cursor=page.next_cursor)
        assert [found.id for found in rest.items] == ["s1"]
        tally = study_pages.tally_study(session, rest.items[0], OutcomeCounts())
        assert tally.trials == {TrialState.COMPLETE: 4, TrialState.RUNNING: 1}
        assert tally.best_value == 0.1
        last = study_pages.last_entries(session, ["s1", "s2"])
        assert {name: entry.kind for name, entry in last.items()} == {
            "s1": "values_reported",
            "s2": "study_submitted",
        }
        assert sum(count_studies(session).values()) == 2
        assert [found.id for found in leased_studies(session)] == ["s1"]
        assert [(a.study_id, a.count) for a in live_attempts(session)] == [("s1", 1)]


def test_columns_and_extras_of_trials(study: Driven) -> None:
    columns = plot_reads.FinishedColumns()
    ids = [study.trial(number) for number in range(5)]
    with study.ledger.read() as session:
        assert plot_reads.extend_finished(session, "s1", columns) == 4
        assert list(columns.number) == [0, 1, 2, 3]
        assert [plot_reads.OUTCOMES[code] for code in columns.outcome] == [
            "kept",
            "kept",
            "discarded",
            "discarded",
        ]
        assert list(plot_reads.proposers_of(session, "s1", columns, 1)) == ["random"] * 3
        assert plot_reads.params_of(session, "s1", [4])[4]["opt"] == "sgd"
        assert plot_reads.scores_of(session, "s1", [2]) == {2: {"loss": 0.9, "accuracy": 0.5}}
        attempts = plot_reads.latest_attempts(session, "s1", before=4, trials=1)
        assert [number for number, _ in attempts] == [3, 3]
        reported = plot_reads.reporting_trials(session, "s1", numbers=[4, 0])
        assert [(trial.number, trial.values) for trial in reported] == [(4, 2), (0, 2)]
        found = list(plot_reads.values_of(session, ids[:1], "loss"))
        assert found == [(ids[0], 1, 1.5), (ids[0], 2, 0.5)]
        assert list(plot_reads.values_of(session, ids, "a/b")) == [(ids[4], 1, 2.0)]
        assert search_scores(session, ids)["s1-t0"]["loss"] == 0.5
        assert last_metrics(session, ids)["s1-t4"]["a/b"] == 2.0
        assert attempt_counts(session, ids)["s1-t0"] == 2
        assert metric_names(session, "s1") == every_metric(session, "s1") == ["a/b", "loss"]
        assert find_attempt(session, study.train(0)) is not None
        assert is_artifact(session, MODEL)
        assert not is_artifact(session, "0" * 64)


def test_chains_families_and_calls(study: Driven) -> None:
    study.record(study.family(candidates=("s1-c1",)))
    with study.ledger.read() as session:
        head = entry_pages.find_head(session, "s1")
        assert head is not None
        assert entry_pages.chain_marks(session)["s1"][0] == head.seq
        down = entry_pages.page_of_entries(session, "s1", descending=True, limit=2)
        assert (down[0].digest, down[0].previous) == (head.digest, down[1].digest)
        assert "trial_decided" in entry_pages.kinds_of(session, "s1")
        done = check_further(session, head, ChainProgress(), limit=3)
        assert (done.seq, done.problem) == (3, None)
        assert check_further(session, head, done, limit=1000).digest == head.digest
        page = family_pages.page_of_families(session, states=[FamilyState.OPEN], limit=1)
        assert [family.id for family in page.items] == ["s1-f1"]
        (model,) = family_pages.list_models(session)
        assert (model.model, model.families, model.awaiting) == ("demo-model", 1, 0)
        assert family_pages.page_of_incumbents(session, "demo-model", before=None, limit=5) == []
        assert list(page_of_calls(session, "s1", before=None, limit=5)) == []
        assert find_call(session, "s1", 0) is None
        assert reads.find_study(session, "demo").id == "s1"


def test_a_commit_is_noticed_once(study: Driven) -> None:
    watch = CommitWatch(study.ledger)
    try:
        assert watch.has_news()
        if study.ledger.address.startswith("sqlite"):
            assert not watch.has_news()
        study.record(study.proposed(5))
        assert watch.has_news()
    finally:
        watch.close()
