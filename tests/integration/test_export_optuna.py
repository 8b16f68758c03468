"""A study written into an Optuna storage is that study to Optuna, and comes back equal."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

optuna = pytest.importorskip("optuna")

from controller.interchange.optuna_import import taken_from_optuna  # noqa: E402
from controller.interchange.optuna_writing import export_optuna  # noqa: E402
from ledger import reads  # noqa: E402
from ledger.database import Ledger  # noqa: E402
from ledger.errors import Conflict, InvalidInput  # noqa: E402
from ledger.records import Split, TrialKind, Verdict  # noqa: E402
from ledger.states import TrialState  # noqa: E402
from tests.interchange_studies import (  # noqa: E402
    PARAMS,
    SPEC,
    is_sound,
    ours,
    quiet,
    record,
    warnings_allowed,
)

optuna.logging.set_verbosity(optuna.logging.ERROR)


def exported(
    ledger: Ledger, path: Path | str, study_id: str = "s1", *, name: str | None = None
) -> int:
    with ledger.read() as session:
        study = reads.get_study(session, study_id)
        return export_optuna(session, study, str(path), name=name, progress=quiet)


def opened(path: Path, name: str = "ours") -> "optuna.Study":
    return optuna.load_study(study_name=name, storage=f"sqlite:///{path}")


def written(ledger: Ledger, path: Path) -> "optuna.Study":
    """A baseline, two complete trials, one pruned, failed, cancelled, running and proposed."""
    study = ours(ledger)
    study.whole_trial(0, 0.1, kind=TrialKind.BASELINE, verdict=Verdict.MEASURED)
    for number, params in enumerate([PARAMS, {**PARAMS, "kind": "adam", "beta": 0.75}], start=1):
        study.record(study.proposed(number, params=params), study.launching(number))
        study.record(study.started(number))
        values = [(1, "loss", math.nan), (2, "loss", number), (2, "other", 7.0)]
        study.record(study.values(number, 0, values), study.exited(number))
        study.record(study.saved(number), study.launching(number, split=Split.SEARCH))
        study.record(
            study.started(number, split=Split.SEARCH),
            study.exited(number, split=Split.SEARCH),
            study.scored(number, float(number)),
            study.decided(number, float(number)),
        )
    for number, state in ((3, TrialState.PRUNED), (4, TrialState.FAILED)):
        params = {**PARAMS, "kind": [1, True][number % 2], "lr": 0.1 * number}
        study.record(study.proposed(number, params=params), study.launching(number))
        study.record(study.started(number), study.ended(number, TrialState.RUNNING, state))
    study.record(study.proposed(5, params={**PARAMS, "layers": 9}))
    study.record(study.ended(5, TrialState.PROPOSED, TrialState.CANCELLED))
    study.record(study.proposed(6, params={**PARAMS, "layers": 10}), study.launching(6))
    study.record(study.started(6), study.proposed(7, params={**PARAMS, "lr": 5.0, "new": "x"}))
    assert exported(ledger, path) == 7
    return opened(path)


def test_states_values_and_curves_are_optunas(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    study = written(sqlite_ledger, tmp_path / "a.db")
    trials = study.trials
    assert [t.state.name for t in trials] == [
        "COMPLETE",
        "COMPLETE",
        "PRUNED",
        "FAIL",
        "FAIL",
        "RUNNING",
        "RUNNING",
    ]
    assert [t.number for t in trials] == list(range(7))
    assert trials[0].values == [1.0]
    assert trials[3].values is None
    assert study.directions == [optuna.study.StudyDirection.MINIMIZE]
    assert math.isnan(trials[0].intermediate_values[1])
    assert trials[0].intermediate_values[2] == 1.0


def test_the_best_trial_is_ours_whatever_the_baseline_had(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    study = written(sqlite_ledger, tmp_path / "a.db")
    with sqlite_ledger.read() as session:
        best = reads.best_trial(session, reads.get_study(session, "s1"))
    assert best is not None
    assert study.best_trial.user_attrs["arl:trial"] == best.id
    assert study.best_value == best.value
    assert study.user_attrs["arl:baseline"] == [0.1]


def test_every_distribution_comes_over(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    study = written(sqlite_ledger, tmp_path / "a.db")
    d = optuna.distributions
    assert study.trials[1].distributions == {
        "lr": d.FloatDistribution(1e-4, 1.0, log=True),
        "drop": d.FloatDistribution(0.0, 0.5, step=0.1),
        "layers": d.IntDistribution(1, 12),
        "batch": d.IntDistribution(8, 56, step=8),
        "kind": d.CategoricalDistribution(("sgd", "adam", 1, True)),
        "beta": d.FloatDistribution(0.5, 1.0),
    }
    assert study.trials[1].params == {**PARAMS, "kind": "adam", "beta": 0.75}
    assert "beta" not in study.trials[0].params
    kinds = [study.trials[number].params["kind"] for number in (2, 3)]
    assert [type(kind) for kind in kinds] == [bool, int], "1 and true stay apart"


def test_attributes_say_what_arl_knows(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    study = written(sqlite_ledger, tmp_path / "a.db")
    complete, pruned, outside = study.trials[0], study.trials[2], study.trials[6]
    assert complete.user_attrs["arl:number"] == 1
    assert complete.user_attrs["arl:candidate"] == "s1-c1"
    assert complete.user_attrs["arl:verdict"] == "discard"
    assert complete.user_attrs["arl:scores"] == {"search.loss": 1.0, "search.accuracy": 0.5}
    assert (pruned.user_attrs["arl:reason"], pruned.user_attrs["arl:detail"]) == (
        "exit_nonzero",
        "it ended",
    )
    assert outside.user_attrs["arl:params"] == {"lr": 5.0, "new": "x"}, "outside of the space"
    assert study.user_attrs["arl:study"] == "s1"
    assert study.metric_names == ["loss"]


def test_optuna_goes_on_from_it(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    study = written(sqlite_ledger, tmp_path / "a.db")
    study.sampler = optuna.samplers.TPESampler(seed=1, n_startup_trials=1)
    trial = study.ask(study.trials[1].distributions)
    study.tell(trial, 0.5)
    assert opened(tmp_path / "a.db").best_trial.number == 7
    optuna.importance.get_param_importances(
        study, params=["lr"], evaluator=optuna.importance.PedAnovaImportanceEvaluator()
    )


def test_several_objectives_are_several_directions(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    second = {"metric": "accuracy", "direction": "maximize"}
    study = ours(sqlite_ledger, spec={**SPEC, "objectives": [second]})
    study.whole_trial(0, 0.3)
    assert exported(sqlite_ledger, tmp_path / "a.db") == 1
    found = opened(tmp_path / "a.db")
    assert [d.name for d in found.directions] == ["MINIMIZE", "MAXIMIZE"]
    assert found.trials[0].values == [0.3, 0.5]
    assert len(found.best_trials) == 1


def test_a_study_without_trials_opens(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    ours(sqlite_ledger)
    assert exported(sqlite_ledger, tmp_path / "a.db", name="\u202e 'x'") == 0
    assert opened(tmp_path / "a.db", "\u202e 'x'").trials == []


def test_a_name_that_is_taken_changes_nothing(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    ours(sqlite_ledger)
    path = tmp_path / "a.db"
    exported(sqlite_ledger, path)
    with pytest.raises(Conflict, match="has a study called 'ours'"):
        exported(sqlite_ledger, path)
    exported(sqlite_ledger, f"sqlite:///{path}", name="again")
    names = optuna.get_all_study_names(f"sqlite:///{path}")
    assert names == ["ours", "again"]


def test_a_place_that_cannot_be_is_refused(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    ours(sqlite_ledger)
    (tmp_path / "text.db").write_text("no database")
    for where, message in (
        (tmp_path / "no" / "a.db", "does not exist"),
        (tmp_path / "text.db", "cannot be opened"),
        ("sqlite://", "name a file"),
        ("nothing://x/y", "cannot be opened"),
    ):
        with pytest.raises(InvalidInput, match=message):
            exported(sqlite_ledger, where)
    assert sorted(path.name for path in tmp_path.iterdir() if "ledger" not in path.name) == [
        "text.db"
    ]


def test_nothing_is_left_of_an_export_that_breaks_off(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    study = ours(sqlite_ledger)
    study.whole_trial(0, 0.3)

    def breaks(_session: object, _trial: object, **_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("controller.interchange.told_trials.read_values", breaks)
        with pytest.raises(KeyboardInterrupt):
            exported(sqlite_ledger, tmp_path / "a.db")
    assert [path.name for path in tmp_path.iterdir() if "ledger" not in path.name] == []


# --- there and back ----------------------------------------------------------------------------


def awkward(trial: "optuna.Trial") -> float:
    trial.set_user_attr("note", ["\u0000\u202eé", None, {"a": math.inf}])
    kind = trial.suggest_categorical("kind", ["a", None, 1, 1.0, True, "null", math.nan, (1, 2)])
    trial.suggest_float("log", 1e-9, 1e9, log=True)
    trial.suggest_float("step", -1, 1, step=0.1)
    trial.suggest_int("huge", -(2**70), 2**70)
    trial.suggest_int("int log", 1, 1000, log=True)
    trial.suggest_int("int_step", 0, 30, step=10)
    trial.suggest_float("same", 2.0, 2.0)
    trial.suggest_float("wider", 0, 1 + trial.number)
    if kind == "a":
        trial.suggest_categorical("deep", ["x", "y"])
    for step, value in ((3, 1.0), (1, math.nan), (2, -math.inf)):
        trial.report(value, step)
    if trial.number % 5 == 1:
        raise optuna.TrialPruned
    if trial.number % 5 == 2:
        raise ValueError("broke")
    return math.inf if trial.number == 3 else float(trial.number)


def told(trial: "optuna.trial.FrozenTrial") -> Mapping[str, Any]:
    attrs = {k: v for k, v in trial.user_attrs.items() if not k.startswith("arl:")}
    return {
        "number": trial.number,
        "state": trial.state,
        "values": trial.values,
        "params": sorted((k, repr(v)) for k, v in trial.params.items()),
        "distributions": sorted((k, repr(v)) for k, v in trial.distributions.items()),
        "curve": sorted((s, repr(v)) for s, v in trial.intermediate_values.items()),
        "attrs": repr(attrs),
        "times": (trial.datetime_start, trial.datetime_complete),
    }


def test_a_study_comes_back_equal(ledger: Ledger, tmp_path: Path) -> None:
    theirs, back = tmp_path / "theirs.db", tmp_path / "back.db"
    with warnings_allowed():
        study = optuna.create_study(
            storage=f"sqlite:///{theirs}",
            study_name="Größe 1",
            direction="maximize",
            sampler=optuna.samplers.RandomSampler(seed=3),
        )
        study.set_user_attr("who", {"me": 1})
        study.optimize(awkward, n_trials=7, catch=(ValueError,))
        study.ask()
    with taken_from_optuna(str(theirs), progress=quiet) as taken:
        study_id = record(taken, ledger).study_id
    assert exported(ledger, back, study_id) == 8
    with warnings_allowed():
        again = opened(back, "Größe 1")
        assert [told(t) for t in again.trials] == [told(t) for t in study.trials]
        assert again.best_trial.number == study.best_trial.number
        assert again.directions == study.directions
        assert again.metric_names is None
        assert again.user_attrs["who"] == {"me": 1}
    assert is_sound(ledger)


def test_what_came_back_is_the_same_to_an_import(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    """An export of ours can be imported, as a history beside the study that it was."""
    written(sqlite_ledger, tmp_path / "a.db")
    with taken_from_optuna(str(tmp_path / "a.db"), progress=quiet) as taken:
        done = record(taken, sqlite_ledger)
        assert taken.space.parameters["beta"]["when"] == {"kind": ["adam"]}
    assert done.is_new
    with sqlite_ledger.read() as session:
        values = [i.trial.value for i in reads.list_trials(session, done.study_id).items]
    assert values == [1.0, 2.0, None, None, None, None, None]


def test_a_path_may_have_any_characters(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    ours(sqlite_ledger).whole_trial(0, 0.3)
    path = tmp_path / "a {b} %20 ?#é.db"
    assert exported(sqlite_ledger, path) == 1
    with taken_from_optuna(str(path), progress=quiet) as taken:
        assert taken.study.trials == 1
    names = sorted(found.name for found in tmp_path.iterdir() if "ledger" not in found.name)
    assert names == [path.name]
