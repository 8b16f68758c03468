"""What is imported is shown like any study, and what autoresearch-rl itself writes is read."""

import os
import subprocess
from pathlib import Path

import pytest

from ledger import reads
from ledger.database import Ledger
from ledger.states import TrialState
from tests.api_runs import api_over, service_of
from tests.interchange_studies import (
    autoresearch_run,
    autoresearch_taken,
    is_sound,
    manifest,
    record,
    reports,
)

ROOT = Path(__file__).resolve().parents[2]
AUTORESEARCH = ROOT / ".bench" / "autoresearch-rl" / "bin" / "autoresearch-rl"
PLOTS = ("history", "importances", "parallel", "slice", "edf", "intermediate", "timeline")


def test_every_page_of_an_imported_study_answers_and_nothing_can_be_asked(tmp_path: Path) -> None:
    run = autoresearch_run(tmp_path / "run", *(manifest(number) for number in range(6)))
    reports(run, 0, ['{"step": 1, "metrics": {"score": 0.5}}'])
    with api_over(tmp_path / "home") as client, autoresearch_taken(run) as taken:
        study = record(taken, service_of(client).ledger).study_id
        listed = client.get("/api/v1/studies?state=imported").json()["items"]
        assert [(item["study"], item["state"]) for item in listed] == [(study, "imported")]
        pages = [f"/api/v1/studies/{study}{tail}" for tail in ("", "/spec", "/trials")]
        pages += [f"/api/v1/studies/{study}/plots/{plot}" for plot in PLOTS]
        pages += [f"/api/v1/trials/{study}-0{tail}" for tail in ("", "/values", "/logs")]
        for page in pages:
            assert client.get(page).status_code == 200, page
        asked = client.post(f"/api/v1/studies/{study}/pause")
        assert (asked.status_code, "was imported" in asked.json()["detail"]) == (409, True)


CONFIG = """
name: demo
objective: {metric: score, direction: max}
target:
  {type: command, workdir: ., timeout_s: 60, train_cmd: [python3, t.py], eval_cmd: [python3, e.py]}
policy: {type: random, seed: 1, params: {x: [0.1, 0.2, 0.3, 0.4], opt: [adam, sgd]}}
controller: {max_iterations: 8}
comparability: {strict: false, expected_budget_s: 86400}
telemetry:
  trace_path: traces/events.jsonl
  ledger_path: artifacts/results.tsv
  artifacts_dir: artifacts/runs
  versions_dir: artifacts/versions
"""
TRAIN = """
import json, os
x = json.loads(os.environ["AR_PARAMS_JSON"])["x"]
with open(os.environ["AR_PROGRESS_FILE"], "a") as file:
    for step in (1, 2, 3):
        print(json.dumps({"step": step, "metrics": {"score": x * step}}), file=file)
raise SystemExit(3 if x > 0.35 else 0)
"""
EVALUATE = """
import json, os
print("score=%f" % json.loads(os.environ["AR_PARAMS_JSON"])["x"])
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not AUTORESEARCH.exists(),
    reason="no .bench/autoresearch-rl: make bench PARTS=noop installs it",
)
def test_a_run_of_autoresearch_rl_itself_is_read(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    for name, text in (("config.yaml", CONFIG), ("t.py", TRAIN), ("e.py", EVALUATE)):
        (place / name).write_text(text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [str(AUTORESEARCH.parent / "python"), str(AUTORESEARCH), "run", "config.yaml"]
    subprocess.run(command, cwd=place, env=environment, check=True)
    with autoresearch_taken(place) as taken:
        assert taken.space.parameters["x"]["choices"] == [0.1, 0.2, 0.3, 0.4]
        study = record(taken, sqlite_ledger).study_id
    with sqlite_ledger.read() as session:
        items = reads.list_trials(session, study).items
        best = reads.best_trial(session, reads.get_study(session, study))
        curve = list(reads.read_values(session, f"{study}-0", metric="score"))
    assert [item.trial.number for item in items] == list(range(8))
    for item in items:
        failed = item.candidate.params["x"] == 0.4
        assert item.trial.state is (TrialState.FAILED if failed else TrialState.COMPLETE)
        assert item.trial.value == (None if failed else item.candidate.params["x"])
    assert best is not None
    assert best.value == 0.3
    assert [value.step for value in curve] == [1, 2, 3]
    assert is_sound(sqlite_ledger)
