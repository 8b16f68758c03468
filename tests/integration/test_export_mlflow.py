"""A study written for MLflow opens in MLflow: runs, parameters, metrics with history, the model.

Slow, and only where MLflow is installed: `scripts/beside.sh mlflow` makes `.mlflow`, or ARL_MLFLOW
names the environment.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ledger.artifacts import ArtifactStore
from ledger.database import open_ledger
from ledger.states import TrialState
from tests.cli_runs import ROOT, Arl, Done
from tests.interchange_studies import PARAMS, SPEC, ours, promoting

PYTHON = Path(os.environ.get("ARL_MLFLOW") or ROOT / ".mlflow") / "bin" / "python"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not PYTHON.exists(), reason="no MLflow in .mlflow: beside.sh mlflow"),
]

READ = """
import json, math, sys
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name(sys.argv[2])
runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time"])
models = mlflow.search_logged_models([experiment.experiment_id], output_format="list")
print(json.dumps({
    "tags": experiment.tags,
    "runs": [
        {
            "name": run.info.run_name,
            "status": run.info.status,
            "params": run.data.params,
            "metrics": {k: str(v) for k, v in run.data.metrics.items()},
            "tags": run.data.tags,
            "history": [
                [m.step, str(m.value)] for m in client.get_metric_history(run.info.run_id, "loss")
            ],
        }
        for run in runs
    ],
    "models": [
        {
            "name": model.name,
            "run": client.get_run(model.source_run_id).info.run_name,
            "path": mlflow.artifacts.download_artifacts(f"models:/{model.model_id}"),
            "tags": model.tags,
        }
        for model in models
    ],
}))
"""


def with_mlflow(place: Path, *arguments: str) -> Done:
    """`arl` on the interpreter that has MLflow."""
    done = subprocess.run(
        [str(PYTHON), "-m", "controller.cli", *arguments],
        cwd=place,
        env=Arl(place).environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def opened(uri: str, name: str = "ours") -> Any:
    done = subprocess.run(
        [str(PYTHON), "-c", READ, uri, name],
        env={"PATH": os.environ["PATH"], "MLFLOW_DISABLE_TELEMETRY": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ledger with a study that promoted a model."""
    home = tmp_path / ".arl"
    ledger = open_ledger(home / "ledger.db", create=True)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    promoting(ledger, ArtifactStore(home / "artifacts"), model)
    ledger.close()
    return tmp_path


def test_mlflow_opens_what_was_written(place: Path) -> None:
    done = with_mlflow(place, "export", "s1", "--format", "mlflow", "-o", "out", "--json")
    assert done.code == 0, done.err
    assert done.json()["trials"] == 2
    found = opened(f"sqlite:///{place}/out/mlflow.db")
    assert found["tags"]["arl.study"] == "s1"
    search, replay = found["runs"]
    assert (search["name"], search["status"]) == ("search-0", "FINISHED")
    assert search["params"] == {name: str(value) for name, value in PARAMS.items()}
    assert search["history"] == [[1, "2.0"], [2, "nan"], [3, "1.7976931348623157e+308"]]
    assert search["metrics"]["score.search.loss"] == "0.25"
    assert search["metrics"]["a_b c_"] == "1.0"
    assert search["tags"]["arl.name.metric.a_b c_"] == "a/b c?"
    assert search["tags"]["arl.candidate"] == "s1-c0"
    assert search["tags"]["arl.verdict"] == "keep"
    assert replay["tags"]["arl.kind"] == "replay"
    (model,) = found["models"]
    assert (model["name"], model["run"]) == ("demo-model", "replay-1")
    assert model["tags"]["arl.promoted_as"] == "demo-model:1"
    assert (Path(model["path"]) / "config.json").read_text() == "{}"


def test_a_tracking_store_that_is_there_gets_one_more_experiment(place: Path) -> None:
    uri = f"sqlite:///{place}/theirs.db"
    for name in ("a", "b"):
        done = with_mlflow(place, "export", "s1", "--format", "mlflow", "-o", uri, "--name", name)
        assert done.code == 0, done.err
        (model,) = opened(uri, name)["models"]
        assert (Path(model["path"]) / "config.json").read_text() == "{}"
    taken = with_mlflow(place, "export", "s1", "--format", "mlflow", "-o", uri, "--name", "a")
    assert taken.code == 4
    assert "there is an experiment called 'a'" in taken.err


def test_states_and_hostile_names_are_told_apart(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / ".arl" / "ledger.db", create=True)
    study = ours(ledger, spec={**SPEC, "name": "awkward"})
    hostile: dict[str, Any] = {"../a": 1, "__/a": 2, "\u202e": "x" * 9000, "n": 2**80}
    study.record(study.proposed(0, params=hostile), study.launching(0))
    study.record(study.started(0), study.ended(0, TrialState.RUNNING, TrialState.PRUNED))
    study.record(study.proposed(1, params={"a": "\0"}), study.launching(1))
    study.record(study.started(1), study.ended(1, TrialState.RUNNING, TrialState.FAILED))
    study.record(study.proposed(2, params={f"p{i}": i for i in range(250)}))
    ledger.close()
    done = with_mlflow(tmp_path, "export", "s1", "--format", "mlflow", "-o", "out")
    assert done.code == 0, done.err
    runs = opened(f"sqlite:///{tmp_path}/out/mlflow.db", "awkward")["runs"]
    statuses = {run["name"]: run["status"] for run in runs}
    assert statuses == {"search-0": "KILLED", "search-1": "FAILED", "search-2": "RUNNING"}
    by_name = {run["name"]: run for run in runs}
    awkward = by_name["search-0"]
    assert sorted(awkward["params"].values(), key=len)[:2] == ["1", "2"]
    assert awkward["params"]["n"] == str(2**80)
    assert "../a" in awkward["tags"].values()
    assert len(by_name["search-2"]["params"]) == 250


def test_nothing_is_left_of_what_cannot_be_written(place: Path) -> None:
    (place / "out").mkdir()
    (place / "out" / "file").write_text("")
    taken = with_mlflow(place, "export", "s1", "--format", "mlflow", "-o", "out")
    assert taken.code == 4
    for path in (place / ".arl" / "artifacts").rglob("*"):
        if path.is_file() and path.read_bytes() == b"{}":
            path.chmod(0o600)
            path.write_bytes(b"[]")
    damaged = with_mlflow(place, "export", "s1", "--format", "mlflow", "-o", "new")
    assert damaged.code == 1
    assert "artifact_corrupt" in damaged.err
    left = sorted(path.name for path in place.iterdir())
    assert left == [".arl", "model", "out"]
