"""A run directory of autoresearch-rl becomes history in the ledger, whole or not at all."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from controller.interchange.taking_in import study_file
from ledger import reads
from ledger.database import Ledger
from ledger.errors import InvalidInput, NotFound
from ledger.states import StudyState, TrialState
from tests.interchange_studies import (
    EPISODE,
    autoresearch_run,
    autoresearch_taken,
    is_sound,
    manifest,
    record,
    reports,
)
from tests.ledger_builders import everything


def imported(ledger: Ledger, directory: Path) -> str:
    with autoresearch_taken(directory) as taken:
        return record(taken, ledger).study_id


def test_every_iteration_is_a_trial(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    run = autoresearch_run(
        tmp_path / "run",
        *(manifest(number) for number in (2, 0)),
        manifest(1, status="failed", stderr="Traceback: boom"),
        manifest(11, status="cancelled", decision="discard"),
        manifest(12, params={"x": 0.1, "opt": "adam", "deep": [1, None]}),
    )
    study_id = imported(sqlite_ledger, run)
    with sqlite_ledger.read() as session:
        study = reads.get_study(session, study_id)
        items = reads.list_trials(session, study_id).items
        best = reads.best_trial(session, study)
    assert (study.state, study.name) == (StudyState.IMPORTED, f"run-{EPISODE}")
    assert [item.trial.number for item in items] == [0, 1, 2, 11, 12]
    assert [item.trial.state for item in items] == [
        TrialState.COMPLETE,
        TrialState.FAILED,
        TrialState.COMPLETE,
        TrialState.PRUNED,
        TrialState.COMPLETE,
    ]
    assert items[4].candidate.params == {"x": 0.1, "opt": "adam", "deep": "[1, null]"}
    assert items[0].trial.ended_at == 1_796_030_691
    assert reads.maximizes(study)
    assert best is not None
    assert best.number == 12
    assert is_sound(sqlite_ledger)


def test_what_a_failed_iteration_reported_is_no_score(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    """There it counts as the iteration's value, and may be the best of the run."""
    lucky = manifest(1, status="failed", metrics={"score": 99.0}, stderr="Traceback: boom")
    study_id = imported(sqlite_ledger, autoresearch_run(tmp_path / "run", manifest(0), lucky))
    with sqlite_ledger.read() as session:
        best = reads.best_trial(session, reads.get_study(session, study_id))
        failed = reads.get_trial(session, f"{study_id}-1")
    assert best is not None
    assert best.number == 0
    assert failed.trial.value is None
    assert failed.evaluations == []
    assert "what it reported of score, 99, is no score" in failed.trial.detail
    assert "Traceback: boom" in failed.trial.detail


def test_what_was_reported_on_the_way_is_a_curve(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    run = autoresearch_run(tmp_path / "run", manifest(0), manifest(1))
    lines = [
        json.dumps({"step": step, "metrics": {"score": step / 2, "loss": math.nan}})
        for step in (1, 2)
    ]
    reports(run, 0, [*lines, "[]", '{"step": 3}', '{"step": 4, "metri'])
    study_id = imported(sqlite_ledger, run)
    with sqlite_ledger.read() as session:
        values = list(reads.read_values(session, f"{study_id}-0", metric="score"))
        losses = list(reads.read_values(session, f"{study_id}-0", metric="loss"))
    assert [(v.step, v.value) for v in values] == [(1, 0.5), (2, 1.0)]
    assert [math.isnan(v.value) for v in losses] == [True, True]
    assert is_sound(sqlite_ledger)


def test_the_study_file_has_the_values_its_policy_chose_from(tmp_path: Path) -> None:
    run = autoresearch_run(tmp_path / "run", manifest(0), manifest(1))
    with autoresearch_taken(run) as taken:
        assert taken.space.parameters["x"] == {"type": "categorical", "choices": [0.1, 0.2, 0.3]}
        assert "default: 0.2" in study_file(taken)


def test_without_a_list_the_space_is_what_was_seen(tmp_path: Path) -> None:
    seen = [
        manifest(number, params={"lr": 0.1 * number, "n": number, "o": "ab"[number % 2]})
        for number in range(60)
    ]
    with autoresearch_taken(autoresearch_run(tmp_path / "run", *seen, policy={})) as taken:
        assert taken.space.parameters == {
            "lr": {"type": "float", "low": 0.0, "high": pytest.approx(5.9)},
            "n": {"type": "int", "low": 0, "high": 59},
            "o": {"type": "categorical", "choices": ["a", "b"]},
        }


def test_the_same_run_is_imported_once_and_a_longer_one_anew(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    first = imported(sqlite_ledger, autoresearch_run(tmp_path / "a" / "run", manifest(0)))
    again = imported(sqlite_ledger, autoresearch_run(tmp_path / "b" / "run", manifest(0)))
    longer = autoresearch_run(tmp_path / "c" / "run", manifest(0), manifest(1))
    assert again == first
    assert imported(sqlite_ledger, longer) != first


def test_a_run_without_iterations_is_an_empty_study(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    study_id = imported(sqlite_ledger, autoresearch_run(tmp_path / "run"))
    with sqlite_ledger.read() as session:
        assert reads.list_trials(session, study_id).items == []
    assert is_sound(sqlite_ledger)


def test_an_episode_is_chosen_and_the_others_are_named(tmp_path: Path) -> None:
    other = manifest(0, episode_id="before", run_id="f" * 12)
    run = autoresearch_run(tmp_path / "run", manifest(0), manifest(1), other)
    (run / "artifacts" / "runs" / f"{1:012x}" / "manifest.json").unlink()
    with autoresearch_taken(run) as taken:
        assert taken.study.trials == 1
        assert any("before" in note for note in taken.notes)
        assert any("1 rows of its results have no manifest" in note for note in taken.notes)
    with autoresearch_taken(run, "before") as taken:
        assert taken.described.name == "run-before"
    with pytest.raises(NotFound, match="has no episode 'never'"), autoresearch_taken(run, "never"):
        pass


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iter": "1"}, "iter: '1'"),
        ({"iter": -1}, "iter: -1"),
        ({"iter": 0}, "iter 0 is in"),
        ({"metrics": [1]}, "metrics"),
        ({"params": None}, "params"),
        ({"iter": 2**40}, "numbers ascend"),
        ({"params": {"\ud800": 1}}, "half a character"),
        ({"params": {"opt": "a\0m"}}, "trial 1: 'a.*m': it holds a zero byte"),
        ({"params": {"x": -(10**400)}}, "trial 1: 'x': a whole number that no float"),
        ({"ts": 1_796_030_691_000}, "trial 1: ended_at: 1796030691000.0: no seconds"),
        ({"ts": math.nan}, "trial 1: ended_at: nan"),
        ({"metrics": {"score": 10**400}}, "int too large"),
    ],
)
def test_a_damaged_manifest_is_refused_and_nothing_is_written(
    sqlite_ledger: Ledger, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    run = autoresearch_run(tmp_path / "run", manifest(0), manifest(1, **changes))
    before = everything(sqlite_ledger)
    with pytest.raises(InvalidInput, match=message):
        imported(sqlite_ledger, run)
    assert everything(sqlite_ledger) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "\udcff", "[" * 100_000])
def test_a_file_that_is_no_object_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    run = autoresearch_run(tmp_path / "run", manifest(0))
    path = run / "artifacts" / "runs" / f"{0:012x}" / "manifest.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidInput, match=r"manifest\.json"), autoresearch_taken(run):
        pass


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (None, "config.objective"),
        ({"metric": "", "direction": "max"}, "config.objective.metric"),
        ({"metric": "x", "direction": "up"}, "config.objective.direction"),
    ],
)
def test_a_run_that_says_no_objective_is_refused(
    tmp_path: Path, objective: object, message: str
) -> None:
    run = autoresearch_run(tmp_path / "run", manifest(0))
    about = {"run_id": EPISODE, "config": {"objective": objective}}
    (run / "artifacts" / "runs" / "run-manifest.json").write_text(json.dumps(about))
    with pytest.raises(InvalidInput, match=message), autoresearch_taken(run):
        pass


def test_what_is_no_run_directory_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InvalidInput, match=r"artifacts/runs/run-manifest\.json"):
            with autoresearch_taken(path):
                pass


def test_links_are_not_followed_out_of_the_directory(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    run = autoresearch_run(tmp_path / "run", manifest(0))
    elsewhere = autoresearch_run(tmp_path / "other", manifest(1))
    reports(run, 0, [])
    file = run / "artifacts" / "runs" / "run-0000" / "progress.jsonl"
    file.unlink()
    secret = tmp_path / "secret"
    secret.write_text('{"step": 1, "metrics": {"score": 1}}')
    file.symlink_to(secret)
    (run / "artifacts" / "runs" / "linked").symlink_to(
        elsewhere / "artifacts" / "runs" / f"{1:012x}"
    )
    study_id = imported(sqlite_ledger, run)
    with sqlite_ledger.read() as session:
        assert len(reads.list_trials(session, study_id).items) == 1
        assert list(reads.read_values(session, f"{study_id}-0")) == []
