"""The worker's live view, pages, lists and their speed with many trials."""

import math
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import insert

from evaluator.pruning import bounded_curve
from ledger import reads, writes
from ledger.database import Ledger, open_ledger
from ledger.digests import canonical_json, params_digest
from ledger.errors import Conflict, InvalidInput, NotFound
from ledger.records import AttemptKind, CommandVerb, Resource, Split, TrialKind, Verdict
from ledger.rows import CANDIDATES, TRIALS
from ledger.states import AttemptState, Reason, StudyState, TrialState
from tests.ledger_builders import BUNDLE, COMPARISON, SPEC, driven, submit


def numbers(page: reads.TrialPage) -> list[int]:
    return [item.trial.number for item in page.items]


def test_a_crashed_workers_view_is_rebuilt(ledger: Ledger) -> None:
    study = driven(ledger, budgets={Resource.TRIALS: 9})
    study.run_study()
    study.whole_trial(0, 3.0, kind=TrialKind.BASELINE, verdict=Verdict.MEASURED)
    study.whole_trial(1, 2.0, verdict=Verdict.KEEP)
    study.record(study.proposed(2), study.launching(2), study.started(2))
    study.record(study.ended_attempt(2, AttemptState.RUNNING), study.launching(2, index=1))
    study.record(study.values(2, 0, [(1, "loss", 5.0), (2, "loss", 4.0)]))
    study.record(study.proposed(3), study.ended(3, TrialState.PROPOSED))
    study.record(study.family())
    with ledger.write() as session:
        writes.insert_command(session, "s1", CommandVerb.PAUSE, {"why": "x"}, "me")
    with ledger.read() as session:
        live = reads.load_live(session, "s1", curve_metric="loss")
    assert live.study.state is StudyState.RUNNING
    assert [t.number for t in live.trials] == [2]
    assert [t.number for t in live.baselines] == [0]
    assert live.replays == []
    assert [(a.id, a.index) for a in live.attempts] == [("s1-t2-train1", 1)]
    assert [a.id for a in live.past_attempts] == ["s1-t2-train0"]
    assert live.attempt_counts["s1-t2", AttemptKind.TRAIN, None] == 2
    assert [(t.number, t.state, t.value, t.kept) for t in live.finished] == [
        (1, TrialState.COMPLETE, 2.0, True),
        (3, TrialState.FAILED, None, False),
    ]
    assert (live.search_count, live.next_number, live.next_finish_seq) == (3, 4, 4)
    assert live.proposed == {params_digest(study.proposed(number).params) for number in (1, 2, 3)}
    assert live.evaluations["s1-t0"][0].value == 3.0
    assert live.artifacts["s1-t0"][0].files == 1
    assert {"s1-c0", "s1-c2"} <= live.candidates.keys()
    assert [c.arguments for c in live.commands] == [{"why": "x"}]
    assert [f.id for f in live.families] == ["s1-f1"]
    assert live.budgets[Resource.TRIALS].spent == 2
    assert live.curves["s1-t1"] == ((1, 3.0), (2, 2.0))
    assert live.value_batches == {"s1-t2-train1": 0}


def test_a_curve_read_back_is_the_one_that_was_kept(ledger: Ledger) -> None:
    """However its values came: pruning decides the same before and after a worker's death."""
    study = driven(ledger, budgets={Resource.TRIALS: 9})
    study.run_study()
    study.record(study.proposed(1), study.launching(1), study.started(1))
    said = [(step, "loss", math.sin(step)) for step in range(500)]
    kept: list[tuple[int, float]] = []
    for step, _, value in said:
        kept = bounded_curve([*kept, (step, value)])
    ends = [0, 1, 40, 200, 203, 500]
    for sequence, (begin, end) in enumerate(pairwise(ends)):
        study.record(study.values(1, sequence, said[begin:end]))
    with ledger.read() as session:
        live = reads.load_live(session, "s1", curve_metric="loss", grow=bounded_curve)
        whole = reads.load_live(session, "s1", curve_metric="loss")
    assert live.curves["s1-t1"] == tuple(kept)
    assert whole.curves["s1-t1"] == tuple((step, value) for step, _, value in said)


def test_an_unknown_study_is_not_found(ledger: Ledger) -> None:
    with ledger.read() as session:
        for call in (reads.get_study, reads.find_study, reads.load_live, reads.get_trial):
            with pytest.raises(NotFound):
                call(session, "nobody")
        with pytest.raises(NotFound):
            reads.get_candidate(session, "nobody")
        assert reads.find_trial(session, "nobody", 0) is None
        assert reads.latest_incumbent(session, "nobody") is None


@pytest.mark.parametrize("name", ["\udcff", "a\x00b", "x" * 5000, "'; --", "%", ""])
def test_a_strange_name_is_refused_in_words(ledger: Ledger, name: str) -> None:
    """A shell passes bytes that are not UTF-8 as lone surrogates."""
    with pytest.raises((NotFound, InvalidInput)), ledger.read() as session:
        reads.find_study(session, name)


def test_a_name_must_say_which_study(ledger: Ledger) -> None:
    submit(ledger, "s1", name="twice")
    submit(ledger, "s2", name="once")
    with ledger.read() as session:
        assert reads.find_study(session, "once").id == "s2"
        assert reads.find_study(session, "s1").id == "s1"
    submit(ledger, "s3", name="twice")
    with ledger.read() as session, pytest.raises(Conflict, match=r"s3, s1|s1, s3"):
        reads.find_study(session, "twice")


def test_studies_are_listed_with_counts_and_best(ledger: Ledger) -> None:
    study = driven(ledger, "s1")
    study.whole_trial(0, 9.0, kind=TrialKind.BASELINE, verdict=Verdict.MEASURED)
    study.whole_trial(1, 2.0)
    study.whole_trial(2, 1.0)
    study.record(study.proposed(3))
    submit(ledger, "s2", spec={**SPEC, "objective": {"metric": "m", "direction": "maximize"}})
    with ledger.read() as session:
        by_id = {found.study.id: found for found in reads.list_studies(session)}
        assert reads.list_studies(session, states=[StudyState.FAILED]) == []
    assert by_id["s1"].trials == {TrialState.COMPLETE: 3, TrialState.PROPOSED: 1}
    assert by_id["s1"].best_value == 1.0
    assert (by_id["s2"].trials, by_id["s2"].best_value) == ({}, None)


@pytest.mark.parametrize("sort", ["number", "value", "duration"])
@pytest.mark.parametrize("descending", [False, True])
def test_pages_hold_every_trial_once_in_order(ledger: Ledger, sort: str, descending: bool) -> None:
    study = driven(ledger)
    for number in range(12):
        if number % 4 == 3:
            study.record(study.proposed(number))
        else:
            study.whole_trial(number, float(number % 3))
    seen: list[int] = []
    keys: list[float | None] = []
    cursor = None
    with ledger.read() as session:
        while True:
            page = reads.list_trials(
                session, "s1", sort=sort, descending=descending, cursor=cursor, limit=5
            )
            seen += numbers(page)
            keys += [item.trial.value for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
    assert sorted(seen) == list(range(12))
    if sort == "number":
        assert seen == sorted(seen, reverse=descending)
    else:
        assert keys[-3:] == [None] * 3, "trials without a value come last"
    if sort == "value":
        assert keys[:9] == sorted(keys[:9], reverse=descending)


def test_trials_are_filtered(ledger: Ledger) -> None:
    study = driven(ledger)
    study.whole_trial(0, 1.0, kind=TrialKind.BASELINE, verdict=Verdict.MEASURED)
    study.record(study.proposed(1, params={"lr": 0.1, "name": 'a,"lr":0.5'}))
    study.record(study.proposed(2, params={"lr": 0.5, "on": True}))
    study.record(study.proposed(3, params={"lr": 0.51, "on": 1}))

    def found(where: reads.TrialFilter) -> list[int]:
        with ledger.read() as session:
            return numbers(reads.list_trials(session, "s1", where=where))

    assert found(reads.TrialFilter(states=[TrialState.COMPLETE])) == [0]
    assert found(reads.TrialFilter(kinds=[TrialKind.SEARCH])) == [1, 2, 3]
    assert found(reads.TrialFilter(params={"lr": 0.5})) == [2]
    assert found(reads.TrialFilter(params={"on": True})) == [2]
    assert found(reads.TrialFilter(params={"name": 'a,"lr":0.5'})) == [1]
    assert found(reads.TrialFilter(params={"lr": 0.1, "on": True})) == []


def test_a_wrong_page_is_refused(ledger: Ledger) -> None:
    study = driven(ledger)
    for number in range(3):
        study.record(study.proposed(number))
    with ledger.read() as session:
        cursor = reads.list_trials(session, "s1", limit=1).next_cursor
        for limit in (0, 501):
            with pytest.raises(InvalidInput, match="limit"):
                reads.list_trials(session, "s1", limit=limit)
        for wrong in ("nonsense", "", "AAAA", cursor):
            with pytest.raises(InvalidInput, match="cursor"):
                reads.list_trials(session, "s1", cursor=wrong, sort="value")


def test_entries_are_read_in_pages(ledger: Ledger) -> None:
    study = driven(ledger)
    study.whole_trial(0, 1.0)
    with ledger.read() as session:
        everything = reads.list_entries(session, "s1")
        first = reads.list_entries(session, "s1", limit=4)
        rest = reads.list_entries(session, "s1", after=4)
    assert first + rest == everything
    assert rest[0].previous == first[-1].digest


def test_pools_are_found_across_studies(ledger: Ledger) -> None:
    for name in ("s1", "s2"):
        study = driven(ledger, name)
        study.whole_trial(0, 1.0, kind=TrialKind.BASELINE, verdict=Verdict.MEASURED)
        study.whole_trial(1, 1.0)
        study.record(study.proposed(2, kind=TrialKind.BASELINE))
    submit(ledger, "s3", comparison="f" * 64)
    with ledger.read() as session:
        found = reads.comparable_trials(session, COMPARISON)
        assert [(c.trial.id, c.evaluations[0].bundle_digest) for c in found] == [
            ("s1-t0", BUNDLE),
            ("s2-t0", BUNDLE),
        ]
        digest = found[0].candidate_digest
        same = reads.comparable_trials(session, COMPARISON, candidate_digest=digest)
        assert [c.trial.id for c in same] == ["s1-t0"]
        assert reads.comparable_trials(session, "f" * 64) == []


def many_trials(ledger: Ledger, count: int) -> None:
    """Finished search trials, inserted directly: their history is not what is measured."""
    submit(ledger)
    with ledger.write() as session:
        for start in range(0, count, 1000):
            chunk = range(start, min(start + 1000, count))
            session.connection.execute(
                insert(CANDIDATES),
                [
                    {
                        "id": f"c{n}", "study_id": "s1", "digest": f"{n:064}",
                        "params": canonical_json({"lr": n / count, "layers": n % 12}),
                        "patch": None, "source_digest": None, "parent_id": None,
                        "rationale": "", "proposer": "random", "state": "discarded",
                        "created_at": 1.0,
                    }
                    for n in chunk
                ],
            )  # fmt: skip
            session.connection.execute(
                insert(TRIALS),
                [
                    {
                        "id": f"t{n}", "study_id": "s1", "number": n, "kind": "search",
                        "candidate_id": f"c{n}", "state": "complete", "reason": "worse",
                        "detail": "", "seed": n, "watermark": n, "finish_seq": n + 1,
                        "splits": "search", "family_id": None, "stage": None,
                        "value": (n * 7919 % count) / count + 1, "verdict": "discard",
                        "created_at": 1.0, "started_at": 1.0, "ended_at": 2.0,
                    }
                    for n in chunk
                ],
            )  # fmt: skip


def test_the_best_of_5000_trials_is_found_by_an_index(ledger: Ledger) -> None:
    """optuna#760: minutes at thousands of trials."""
    many_trials(ledger, 5000)
    times = []
    with ledger.read() as session:
        study = reads.get_study(session, "s1")
        for _ in range(5):
            start = time.perf_counter()
            best = reads.best_trial(session, study)
            times.append(time.perf_counter() - start)
    assert best is not None
    assert best.value == 1.0
    assert min(times) < 0.010


def test_a_view_of_20000_trials_is_small_and_quick(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "l.db", create=True)
    many_trials(ledger, 20_000)
    start = time.process_time()
    with ledger.read() as session:
        live = reads.load_live(session, "s1")
    seconds = time.process_time() - start
    assert len(live.finished) == 20_000
    assert len(live.proposed) == 20_000
    assert seconds < 2.0
    del live
    tracemalloc.start()
    with ledger.read() as session:
        live = reads.load_live(session, "s1")
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(live.finished) == 20_000
    assert held / 20_000 < 1000, "bytes a finished trial"
    assert peak < 100e6
    start = time.process_time()
    with ledger.read() as session:
        page = reads.list_trials(session, "s1", sort="value", limit=100)
    assert time.process_time() - start < 0.2
    assert len(page.items) == 100
    ledger.close()


def test_trial_detail_names_what_failed(ledger: Ledger) -> None:
    study = driven(ledger)
    study.record(study.proposed(0), study.launching(0), study.started(0))
    study.record(study.exited(0), study.ended(0, TrialState.RUNNING))
    with ledger.read() as session:
        detail = reads.get_trial(session, "s1-t0")
        trial = reads.find_trial(session, "s1", 0)
    assert detail.trial == trial
    assert (detail.trial.reason, detail.trial.detail) == (Reason.EXIT_NONZERO, "it ended")
    assert detail.decision is None
    assert detail.attempts[0].split is None
    assert Split.SEARCH in detail.trial.splits
