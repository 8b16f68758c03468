"""The three ways to score a trial, pruning, and resuming a lost attempt, through a whole study."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from controller.cli import front
from controller.worker.driver import StudyDriver
from controller.worker.loop import Callbacks
from ledger import reads
from ledger.records import AttemptKind
from ledger.states import (
    AttemptState,
    FamilyState,
    FaultClass,
    Reason,
    StudyState,
    TrialState,
    fault_class,
)
from tests.acceptance.shell_study import drive, facts, open_service, submit, target_named

ONE_TRIAL = {"budget": {"trials": 1}}

ANSWERER = """\
import json, os, sys
params = json.load(open(os.path.join(os.environ["ARL_INPUTS"], "artifact", "params.json")))
peeked = [name for name in ("bundle", "split") if os.path.exists(
    os.path.join(os.environ["ARL_INPUTS"], name))]
for line in sys.stdin:
    inputs = json.loads(line)["inputs"]
    answers = [str(int(i * 2)) if i / 10 < params["parameters"]["x"] else "?" for i in inputs]
    print(json.dumps({"answers": ["cheat"] * len(inputs) if peeked else answers}), flush=True)
"""
SCORER = """\
import json, os, sys
ask, answer = int(os.environ["ARL_ASK_FD"]), int(os.environ["ARL_ANSWER_FD"])
split = os.path.join(os.environ["ARL_INPUTS"], "split", "split.jsonl")
items = [json.loads(line) for line in open(split)]
os.write(ask, json.dumps({"batch": 0, "inputs": [i["input"] for i in items]}).encode() + b"\\n")
answers = json.loads(os.fdopen(answer).readline())["answers"]
right = [float(a == i["label"]) for a, i in zip(answers, items, strict=True)]
os.write(int(os.environ["ARL_SCORE_FD"]), json.dumps(
    {"metrics": {"score": sum(right) / len(right)}, "items": right}).encode())
"""


def repeated(home: Path, monkeypatch: pytest.MonkeyPatch, trial: str) -> Any:
    """The trial once more, from the bundle that `arl reproduce` writes."""
    monkeypatch.setenv("ARL_HOME", str(home / ".arl"))
    monkeypatch.setenv("ARL_TARGET", "local")
    assert front.run(["reproduce", trial, str(home / "repeat")]) == 0
    script = [sys.executable, "-I", str(home / "repeat" / "reproduce.py"), "--json"]
    done = subprocess.run(script, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


def test_answers_mode_scores_what_the_candidates_code_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "answer.py").write_text(ANSWERER)
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "evaluate.py").write_text(SCORER)
    for split, numbers in (("search", range(0, 10)), ("holdout", range(10, 20))):
        lines = [json.dumps({"input": n, "label": str(2 * n)}) for n in numbers]
        (bundle / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={
            "kind": "command",
            "source": "source",
            "argv": [
                "/bin/sh",
                "-c",
                'mkdir "$ARL_OUTPUT/model"; cp "$ARL_PARAMS" "$ARL_OUTPUT/model/params.json"',
            ],
        },
        evaluator={
            "bundle": "bundle",
            "mode": "answers",
            "answer_argv": ["{python}", "answer.py"],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1}},
        },
        space={"x": {"type": "float", "low": 0.25, "high": 0.85, "default": 0.45}},
        **ONE_TRIAL,
    )
    assert drive(service, study_id).state is StudyState.COMPLETED
    with service.ledger.read() as session:
        baseline = reads.get_trial(session, f"{study_id}-0")
    # Inputs 0..4 are below 10 * 0.45, so five of ten answers are right, item by item.
    assert baseline.trial.value == 0.5
    assert list(baseline.evaluations[0].items) == [1.0] * 5 + [0.0] * 5
    service.close()
    assert repeated(tmp_path, monkeypatch, baseline.trial.id)["scores"] == {"search": 0.5}


def test_reported_mode_takes_the_programs_last_word_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "for i in 1 2 3; do "
        'echo "{\\"step\\": $i, \\"metric\\": \\"score\\", \\"value\\": 0.$i}" >> "$ARL_REPORTS";'
        " done"
    )
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["/bin/sh", "-c", program]},
        evaluator={"mode": "reported", "metrics": {"score": {}}},
        **ONE_TRIAL,
    )
    study = drive(service, study_id)
    assert (study.state, study.bundle_digest) == (StudyState.COMPLETED, "")
    with service.ledger.read() as session:
        baseline = reads.get_trial(session, f"{study_id}-0")
    assert baseline.trial.value == 0.3
    assert {a.kind for a in baseline.attempts} == {AttemptKind.TRAIN}
    service.close()
    assert repeated(tmp_path, monkeypatch, baseline.trial.id)["scores"] == {"search": 0.3}


def test_a_program_that_reports_no_objective_fails_as_no_metric(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["/bin/sh", "-c", "echo score=1"]},
        evaluator={"mode": "reported", "metrics": {"score": {}}},
        **ONE_TRIAL,
    )
    study = drive(service, study_id)
    assert (study.state, study.reason) == (StudyState.FAILED, Reason.BASELINE_FAILED)
    assert "no_metric" in study.detail
    service.close()


LEARNS = """
x=$(sed -n 's/.*"x": *\\([0-9.]*\\).*/\\1/p' "$ARL_PARAMS")
for step in 1 2 3 4 5 6 7 8; do
  echo "{\\"step\\": $step, \\"metric\\": \\"score\\", \\"value\\": $x}" >> "$ARL_REPORTS"
  sleep 0.05
  if [ -e "$ARL_STOP" ]; then exit 42; fi
done
mkdir "$ARL_OUTPUT/model" && cp "$ARL_PARAMS" "$ARL_OUTPUT/model/params.json"
"""


def test_a_trial_behind_the_median_is_pruned_and_costs_less(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["/bin/sh", "-c", LEARNS]},
        proposer={"name": "grid"},
        space={"x": {"type": "float", "low": 0.1, "high": 0.9, "step": 0.8, "default": 0.9}},
        pruning={"name": "median", "startup_trials": 2, "warmup_steps": 2, "margin": "none"},
        duplicates="replicate",
        budget={"trials": 2},
    )
    study = drive(service, study_id)
    assert study.state is StudyState.COMPLETED
    with service.ledger.read() as session:
        trial = reads.get_trial(session, f"{study_id}-2")
    assert trial.candidate.params["x"] == 0.1
    assert (trial.trial.state, trial.trial.reason) == (TrialState.PRUNED, Reason.PRUNED_MEDIAN)
    assert trial.trial.value is None
    assert {v.metric: v.step for v in trial.latest}["score"] < 8
    service.close()


SAVES = """
mkdir -p "$ARL_OUTPUT/resume"
if [ -e "$ARL_INPUTS/resume/step" ]; then
  mkdir "$ARL_OUTPUT/model" && cp "$ARL_PARAMS" "$ARL_OUTPUT/model/params.json"
  echo resumed from $(cat "$ARL_INPUTS/resume/step")
  exit 0
fi
echo 7 > "$ARL_OUTPUT/resume/step"
echo '{"step": 7, "metric": "loss", "value": 0.5}' >> "$ARL_REPORTS"
sleep 600
"""


def test_a_lost_attempt_is_followed_by_one_that_resumes_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={"kind": "command", "argv": ["/bin/sh", "-c", SAVES]},
        noise={"baseline_trials": 2},
        **ONE_TRIAL,
    )
    killed: set[str] = set()

    def lose_first_attempts(driver: StudyDriver) -> None:
        """Kill the subreaper of every first attempt that has reported: infrastructure's fault."""
        for trial in driver.view.live.values():
            attempt = trial.attempt
            if attempt is None or attempt.index or attempt.value_batches == 0:
                continue
            if attempt.name not in killed:
                killed.add(attempt.name)
                os.kill(_subreaper_of(tmp_path, attempt.name), signal.SIGKILL)

    study = drive(service, study_id, Callbacks(on_tick=lose_first_attempts))
    assert study.state is StudyState.COMPLETED
    with service.ledger.read() as session:
        trial = reads.get_trial(session, f"{study_id}-0")
    train = [a for a in trial.attempts if a.kind is AttemptKind.TRAIN]
    assert [a.state for a in train] == [AttemptState.LOST, AttemptState.COLLECTED]
    assert train[0].reason is not None
    assert fault_class(train[0].reason) is FaultClass.INFRASTRUCTURE
    log = target_named(service, "local").read_log(train[1].handle or "", offset=0, limit=100).data
    assert log == b"resumed from 7\n"
    service.close()


def _subreaper_of(home: Path, name: str) -> int:
    """The parent of the process whose environment names the attempt."""
    for _ in range(100):
        for process in Path("/proc").iterdir():
            try:
                environment = (process / "environ").read_bytes()
                if f"ARL_ATTEMPT={name}\0".encode() in environment:
                    stat = (process / "stat").read_text().rpartition(")")[2].split()
                    return int(stat[1])
            except (OSError, ValueError):
                continue
        time.sleep(0.02)
    raise AssertionError(f"no process of {name}")


def test_a_command_study_with_data_is_prepared_and_reads_it(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"row": 1}\n{"row": 2}\n')
    count = 'n=$(wc -l < "$ARL_INPUTS/train/train.jsonl"); mkdir "$ARL_OUTPUT/model"; '
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={
            "kind": "command",
            "argv": [
                "/bin/sh",
                "-c",
                count + 'echo "{\\"x\\": 0.$n}" > "$ARL_OUTPUT/model/params.json"',
            ],
            "data": {"train": "train.jsonl"},
        },
        **ONE_TRIAL,
    )
    assert drive(service, study_id).state is StudyState.COMPLETED
    frozen = next(payload for kind, payload in facts(service, study_id) if kind == "inputs_frozen")
    with service.ledger.read() as session:
        baseline = reads.get_trial(session, f"{study_id}-0")
    assert baseline.trial.value == 0.2
    assert set(frozen["inputs"]) == {"train"}
    assert frozen["report"]["ok"] is True
    service.close()


def test_training_data_that_holds_the_evaluators_items_ends_the_study(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"item": "holdout-3"}\n')
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        program={
            "kind": "command",
            "argv": ["/bin/sh", "-c", ":"],
            "data": {"train": "train.jsonl"},
        },
        **ONE_TRIAL,
    )
    study = drive(service, study_id)
    assert (study.state, study.reason) == (StudyState.FAILED, Reason.CONTAMINATED)
    service.close()


GUARDED = (
    'x=$(sed -n \'s/.*"x": *\\([0-9.e-]*\\).*/\\1/p\' "$ARL_INPUTS/artifact/params.json"); '
    "case $x in 0.1*) kept=1.0;; *) kept=WINNER;; esac; "
    'echo "{\\"metrics\\": {\\"score\\": $x, \\"kept\\": $kept}}" >&3'
)


def guarded_study(tmp_path: Path, winner: str) -> tuple[StudyState, list[FamilyState]]:
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        parallel=2,
        evaluator={
            "bundle": "./evaluator",
            "argv": ["/bin/sh", "-c", GUARDED.replace("WINNER", winner)],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1}, "kept": {"low": 0, "high": 1}},
        },
        noise={},
        promotion={
            "model": "toy",
            "profile": "quick",
            "guard": {"kept": {"max_drop": 0.05}},
        },
    )
    state = drive(service, study_id).state
    with service.ledger.read() as session:
        families = [family.state for family in reads.list_families(session, study_id)]
    service.close()
    return state, families


def test_a_winner_that_pays_with_a_guarded_metric_is_refused(tmp_path: Path) -> None:
    assert guarded_study(tmp_path, "0.5") == (StudyState.COMPLETED, [FamilyState.REFUSED])


def test_a_winner_that_keeps_the_guarded_metric_is_promoted(tmp_path: Path) -> None:
    assert guarded_study(tmp_path, "0.97") == (StudyState.COMPLETED, [FamilyState.PROMOTED])


def test_an_artifact_the_evaluator_refuses_is_the_candidates_fault(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    study_id = submit(
        service,
        tmp_path,
        evaluator={
            "bundle": "./evaluator",
            "argv": ["/bin/sh", "-c", "echo not loadable; exit 43"],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1}},
        },
        **ONE_TRIAL,
    )
    study = drive(service, study_id)
    assert study.reason is Reason.BASELINE_FAILED
    with service.ledger.read() as session:
        trial = reads.get_trial(session, f"{study_id}-0")
    assert (trial.trial.state, trial.trial.reason) == (TrialState.FAILED, Reason.OUTPUT_REFUSED)
    assert len([a for a in trial.attempts if a.kind is AttemptKind.EVALUATE]) == 1
    service.close()


def test_a_bundle_damaged_between_two_workers_ends_the_study(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    study_id = submit(service, tmp_path, **ONE_TRIAL)
    with service.ledger.read() as session:
        digest = reads.get_study(session, study_id).bundle_digest
    stored = next((tmp_path / ".arl" / "artifacts" / "objects").rglob(f"*{digest[2:]}"))
    stored.chmod(0o644)
    stored.write_bytes(stored.read_bytes().replace(b"score", b"scorn"))
    study = drive(service, study_id)
    assert (study.state, study.reason) == (StudyState.FAILED, Reason.BUNDLE_CHANGED)
    assert digest[:12] in study.detail
    service.close()
