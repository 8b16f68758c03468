"""Trials whose source a patch changed, and candidates that break a constraint."""

from pathlib import Path
from typing import Any

from controller.steps import commands
from controller.wiring import Service
from ledger import reads
from ledger.records import CommandVerb, Trial
from ledger.states import Reason, StudyState, TrialState
from ledger.verify import verify_ledger
from tests.acceptance.shell_study import drive, open_service, submit

RATE = "#!/bin/sh\n# what the model is worth\nRATE=0.3\n"
PATCH = """\
--- a/rate.sh
+++ b/rate.sh
@@ -2,2 +2,2 @@
 # what the model is worth
-RATE=0.3
+RATE=0.8
"""
TRAIN = '. ./rate.sh; mkdir -p "$ARL_OUTPUT/model"; echo "$RATE" > "$ARL_OUTPUT/model/x"'
EVALUATE = """\
set -e
value=$(cat "$ARL_INPUTS/artifact/x")
printf '{"metrics": {"score": %s, "cost": %s}}' "$value" "$value" >&3
"""


def mutable_study(service: Service, base: Path, **changes: Any) -> str:
    (base / "program").mkdir()
    (base / "program" / "rate.sh").write_text(RATE)
    (base / "program" / "fixed.sh").write_text("exit 1\n")
    return submit(
        service,
        base,
        program={
            "kind": "command",
            "argv": ["/bin/sh", "-c", TRAIN],
            "source": "./program",
            "mutable": ["rate.sh"],
            "mutable_reason": "rate.sh sets a number",
        },
        evaluator={
            "bundle": "./evaluator",
            "argv": ["/bin/sh", "-c", EVALUATE],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"score": {"low": 0, "high": 1, "resolution": 0.001}, "cost": {}},
        },
        budget={"trials": 2},
        parallel=1,
        **changes,
    )


def opened(base: Path) -> Service:
    return open_service(base, ARL_ALLOW_UNSANDBOXED_PATCHES="1")


def search_trials(service: Service, study_id: str) -> list[Trial]:
    with service.ledger.read() as session:
        found = reads.list_trials(session, study_id, limit=100).items
    return [item.trial for item in found if item.trial.kind == "search"]


def test_a_patch_asked_for_by_hand_is_tried_on_its_own_source(tmp_path: Path) -> None:
    service = opened(tmp_path)
    study_id = mutable_study(service, tmp_path)
    commands.ask(service, study_id, CommandVerb.ENQUEUE, {"patch": PATCH}, "test")
    drive(service, study_id)
    trial = search_trials(service, study_id)[0]
    assert (trial.state, trial.value) == (TrialState.COMPLETE, 0.8)
    with service.ledger.read() as session:
        candidate = reads.get_candidate(session, trial.candidate_id)
        study = reads.get_study(session, study_id)
        assert list(verify_ledger(service.ledger, service.store)) == []
    source = service.store.checkout(candidate.source_digest or "")
    assert candidate.patch == PATCH
    assert (source / "rate.sh").read_text() == RATE.replace("0.3", "0.8")
    assert (source / "fixed.sh").read_text() == "exit 1\n"
    assert candidate.source_digest != study.spec["program"]["source"]  # type: ignore[index, call-overload]
    service.close()


def test_a_patch_of_a_frozen_file_is_refused_and_tries_nothing(tmp_path: Path) -> None:
    service = opened(tmp_path)
    study_id = mutable_study(service, tmp_path)
    patch = PATCH.replace("rate.sh", "fixed.sh")
    commands.ask(service, study_id, CommandVerb.ENQUEUE, {"patch": patch}, "test")
    drive(service, study_id)
    with service.ledger.read() as session:
        entries = reads.list_entries(session, study_id, limit=1000)
    applied = [e.payload for e in entries if e.kind == "command_applied"]
    assert [a["refused"] for a in applied] == [True]
    assert "'fixed.sh' is no file that may be changed" in str(applied[0]["detail"])
    assert all(t.value == 0.3 for t in search_trials(service, study_id))
    service.close()


def test_a_candidate_that_breaks_a_constraint_is_neither_kept_nor_replayed(
    tmp_path: Path,
) -> None:
    service = opened(tmp_path)
    study_id = mutable_study(
        service,
        tmp_path,
        constraints={"cost": {"high": 0.5}},
        promotion={"model": "toy", "profile": "quick"},
        noise={},
    )
    commands.ask(service, study_id, CommandVerb.ENQUEUE, {"patch": PATCH}, "test")
    study = drive(service, study_id)
    trial = search_trials(service, study_id)[0]
    with service.ledger.read() as session:
        families = reads.list_families(session, study_id)
    assert (trial.value, trial.reason) == (0.8, Reason.INFEASIBLE)
    assert families == []
    assert study.state is StudyState.COMPLETED
    service.close()
