"""A study of an Optuna storage becomes history in the ledger, whole or not at all."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

optuna = pytest.importorskip("optuna")

from controller.interchange.optuna_import import taken_from_optuna  # noqa: E402
from controller.interchange.taking_in import Taken, study_file  # noqa: E402
from controller.spec.loading import load_study  # noqa: E402
from ledger import reads, writes  # noqa: E402
from ledger.database import Ledger  # noqa: E402
from ledger.errors import Conflict, InvalidInput, NotFound  # noqa: E402
from ledger.import_reads import find_study_import  # noqa: E402
from ledger.records import CommandVerb, Verdict  # noqa: E402
from ledger.states import Reason, StudyState, TrialState  # noqa: E402
from tests.interchange_studies import is_sound, quiet, record, warnings_allowed  # noqa: E402
from tests.ledger_builders import everything  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)


def search(trial: "optuna.Trial") -> float:
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    kind = trial.suggest_categorical("kind", ["sgd", "adam"])
    if kind == "adam":
        trial.suggest_float("beta", 0.8, 0.99)
    trial.suggest_int("layers", 2, 8, step=2)
    for step in range(3):
        trial.report(math.nan if step == 1 else lr * step, step)
    if trial.number == 2:
        raise optuna.TrialPruned
    if trial.number == 3:
        raise ValueError("it broke")
    return lr


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two complete trials, a pruned, a failed, more complete ones, and one that still runs."""
    path = tmp_path_factory.mktemp("optuna") / "study.db"
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(
        storage=f"sqlite:///{path}", study_name="Größe 1", direction="minimize", sampler=sampler
    )
    study.optimize(search, n_trials=8, catch=(ValueError,))
    study.ask()
    return path


@contextmanager
def taken(path: Path | str, study: str | None = None) -> Iterator[Taken]:
    with taken_from_optuna(str(path), study=study, progress=quiet) as found:
        yield found


def imported(ledger: Ledger, path: Path) -> str:
    with taken(path) as found:
        return record(found, ledger).study_id


def test_every_trial_is_there_with_its_state_values_and_curve(
    ledger: Ledger, storage: Path
) -> None:
    study_id = imported(ledger, storage)
    theirs = optuna.load_study(study_name="Größe 1", storage=f"sqlite:///{storage}")
    with ledger.read() as session:
        study = reads.get_study(session, study_id)
        page = reads.list_trials(session, study_id)
        curves = [list(reads.read_values(session, item.trial.id)) for item in page.items]
        best = reads.best_trial(session, study)
    assert (study.state, study.reason, study.name) == (
        StudyState.IMPORTED,
        Reason.IMPORTED,
        "Gr-e-1",
    )
    states = [item.trial.state for item in page.items]
    assert states[2:4] == [TrialState.PRUNED, TrialState.FAILED]
    assert states[8] == TrialState.CANCELLED
    assert page.items[8].trial.detail == "was running in Optuna when it was imported"
    for item, trial in zip(page.items, theirs.trials, strict=True):
        assert dict(item.candidate.params) == trial.params
        assert item.trial.value == (trial.value if trial.state.name == "COMPLETE" else None)
    assert [(v.step, v.metric) for v in curves[0]] == [(0, "value"), (1, "value"), (2, "value")]
    assert math.isnan(curves[0][1].value)
    assert best is not None
    assert best.number == theirs.best_trial.number
    assert is_sound(ledger)


def test_times_are_those_of_optuna(sqlite_ledger: Ledger, storage: Path) -> None:
    study_id = imported(sqlite_ledger, storage)
    theirs = optuna.load_study(study_name="Größe 1", storage=f"sqlite:///{storage}").trials[0]
    with sqlite_ledger.read() as session:
        trial = reads.get_trial(session, f"{study_id}-0").trial
    assert trial.started_at == pytest.approx(theirs.datetime_start.timestamp())
    assert trial.ended_at == pytest.approx(theirs.datetime_complete.timestamp())


def test_no_score_of_theirs_is_under_an_evaluator_or_could_be_compared(
    sqlite_ledger: Ledger, storage: Path
) -> None:
    study_id = imported(sqlite_ledger, storage)
    with sqlite_ledger.read() as session:
        study = reads.get_study(session, study_id)
        page = reads.list_trials(session, study_id)
        scored = reads.load_evaluations(session, [item.trial.id for item in page.items])
        assert study.bundle_digest == ""
        assert {e.bundle_digest for group in scored.values() for e in group} == {""}
        assert {item.trial.verdict for item in page.items} == {Verdict.MEASURED, None}
        assert reads.comparable_trials(session, study.comparison) == []
        mode = study.spec["evaluator"]
    assert isinstance(mode, dict)
    assert mode["mode"] == "reported"


def test_nothing_can_be_asked_of_an_imported_study(sqlite_ledger: Ledger, storage: Path) -> None:
    study_id = imported(sqlite_ledger, storage)
    before = everything(sqlite_ledger)
    for verb in CommandVerb:
        with sqlite_ledger.write() as session, pytest.raises(Conflict, match="was imported"):
            writes.insert_command(session, study_id, verb, {}, "tester")
    assert everything(sqlite_ledger) == before
    with sqlite_ledger.read() as session:
        assert reads.workable_studies(session) == []


def test_importing_the_same_again_writes_nothing_and_says_so(
    sqlite_ledger: Ledger, storage: Path
) -> None:
    with taken(storage) as found:
        first = record(found, sqlite_ledger)
    before = everything(sqlite_ledger)
    with taken(f"sqlite:///{storage}", "Größe 1") as found:
        second = record(found, sqlite_ledger)
    assert (first.is_new, second.is_new) == (True, False)
    assert second.study_id == first.study_id
    assert everything(sqlite_ledger) == before


def test_the_chain_says_where_it_came_from(sqlite_ledger: Ledger, storage: Path) -> None:
    study_id = imported(sqlite_ledger, storage)
    with sqlite_ledger.read() as session:
        found = find_study_import(session, study_id)
    assert found is not None
    assert (found.source, found.name, found.trials) == ("optuna", "Größe 1", 9)
    assert found.location == f"sqlite:///{storage}"


def test_a_changed_trial_is_found_by_verify(sqlite_ledger: Ledger, storage: Path) -> None:
    study_id = imported(sqlite_ledger, storage)
    with sqlite3.connect(sqlite_ledger.where) as connection:
        connection.execute("UPDATE trials SET value = 9 WHERE id = ?", (f"{study_id}-1",))
    assert not is_sound(sqlite_ledger)


def test_the_storage_itself_is_not_touched(sqlite_ledger: Ledger, storage: Path) -> None:
    before = storage.read_bytes()
    imported(sqlite_ledger, storage)
    assert storage.read_bytes() == before
    assert [path.name for path in storage.parent.iterdir()] == [storage.name]


def test_the_study_file_has_their_space_and_their_best_as_its_baseline(
    storage: Path, tmp_path: Path
) -> None:
    with taken(storage) as found:
        text = study_file(found)
        best = found.best
    assert best is not None
    file = tmp_path / "study.yaml"
    file.write_text(text)
    for name in ("program/train.py", "evaluator/evaluate.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("")
    (tmp_path / "evaluator" / "search.jsonl").write_text("{}\n")
    (tmp_path / "evaluator" / "holdout.jsonl").write_text('{"a": 1}\n')
    spec = load_study(file)
    assert spec.space["beta"].when == {"kind": ("adam",)}
    assert {name: p.default for name, p in spec.space.items() if name in best.params} == dict(
        best.params
    )
    assert spec.space["layers"].model_dump(include={"low", "high", "step"}) == {
        "low": 2,
        "high": 8,
        "step": 2,
    }


def test_what_a_study_file_cannot_say_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    study = optuna.create_study(storage=f"sqlite:///{path}", study_name="odd")
    with warnings_allowed():
        trial = study.ask()
        trial.suggest_int("huge", 0, 2**70)
        trial.suggest_categorical("one", ["only"])
        trial.suggest_float("seed", 0, 1)
        trial.suggest_float("learning rate", 0, 1)
        trial.suggest_categorical("any", [None, (1, 2), math.nan, "null"])
        study.tell(trial, 1.0)
    with taken(path) as found:
        notes = "\n".join(found.notes)
        assert set(found.space.parameters) == set()
        assert found.best is not None
        assert isinstance(found.best.params["huge"], int)
        assert found.best.params["any"] in ("null", "[1, 2]", "NaN")
    for name in ("huge", "one", "seed", "learning rate", "any"):
        assert f"{name} is not in the space" in notes


def test_an_infinite_value_is_no_score_and_never_the_best(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "infinite.db"
    study = optuna.create_study(storage=f"sqlite:///{path}", study_name="inf")
    for value in (math.inf, 2.0, -math.inf):
        trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
        study.tell(trial, value)
    study_id = imported(sqlite_ledger, path)
    with sqlite_ledger.read() as session:
        values = [i.trial.value for i in reads.list_trials(session, study_id).items]
    assert values == [None, 2.0, None]
    assert is_sound(sqlite_ledger)


def test_an_empty_study_is_imported(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    optuna.create_study(storage=f"sqlite:///{path}", study_name="\u202e'; DROP TABLE trials")
    with taken(path) as found:
        done = record(found, sqlite_ledger)
        assert found.best is None
        assert "DROP" in study_file(found)
    assert done.trials == 0
    assert is_sound(sqlite_ledger)


# --- what is refused ---------------------------------------------------------------------------


def damaged(storage: Path, tmp_path: Path, statement: str) -> Path:
    path = tmp_path / "damaged.db"
    path.write_bytes(storage.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    return path


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE trial_params SET param_value = 'x' WHERE trial_id = 2", "trial 1 is damaged"),
        ("UPDATE trial_params SET param_value = 7 WHERE param_name = 'kind'", "no choice"),
        ("UPDATE trial_params SET distribution_json = '{' WHERE trial_id = 1", "trial 0 is dam"),
        ("UPDATE trials SET state = 'LOST' WHERE number = 4", "trial 4 is damaged"),
        ("UPDATE trials SET number = 3 WHERE number = 4", "trial 3: after 3"),
        ("UPDATE trial_values SET objective = 5 WHERE trial_id = 1", "trial 0 is damaged"),
        ("DELETE FROM trial_values WHERE trial_id = 1", "trial 0 is damaged"),
        ("UPDATE trial_values SET value_type = 'HUGE' WHERE trial_id = 1", "no stored number"),
        ("UPDATE trials SET datetime_start = 'soon' WHERE number = 0", "Invalid isoformat"),
        ("DELETE FROM study_directions", "is damaged"),
        ("UPDATE alembic_version SET version_num = 'v9'", "optuna storage upgrade"),
        ("DROP TABLE trial_values", "no table trial_values"),
    ],
)
def test_a_damaged_storage_is_refused_and_nothing_is_written(
    sqlite_ledger: Ledger, storage: Path, tmp_path: Path, statement: str, message: str
) -> None:
    path = damaged(storage, tmp_path, statement)
    before = everything(sqlite_ledger)
    with pytest.raises(InvalidInput, match=message), taken(path) as found:
        record(found, sqlite_ledger)
    assert everything(sqlite_ledger) == before


def test_torn_pages_are_refused(sqlite_ledger: Ledger, storage: Path, tmp_path: Path) -> None:
    path = tmp_path / "torn.db"
    content = bytearray(storage.read_bytes())
    content[4096:40960] = b"\xff" * (40960 - 4096)
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="optuna"), taken(path) as found:
        record(found, sqlite_ledger)


def test_what_is_no_storage_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("a,b,c")
    for name, message in (("text.db", "no SQLite database"), ("none.db", "there is no file")):
        with pytest.raises(InvalidInput, match=message), taken(tmp_path / name):
            pass
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE a (b)")
    with pytest.raises(InvalidInput, match="no table"), taken(tmp_path / "other.db"):
        pass
    assert not (tmp_path / "none.db").exists()


def test_the_study_is_named_where_there_are_several(storage: Path, tmp_path: Path) -> None:
    path = tmp_path / "two.db"
    for name in ("a", "b"):
        optuna.create_study(storage=f"sqlite:///{path}", study_name=name)
    with pytest.raises(InvalidInput, match=r"--study: the storage has several \('a', 'b'\)"):
        with taken(path):
            pass
    with pytest.raises(NotFound, match="no study called 'c'"), taken(path, "c"):
        pass
    with taken(path, "b") as found:
        assert found.described.name == "b"
