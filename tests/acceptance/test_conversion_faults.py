"""What goes wrong with a conversion is named, nothing of it is kept half, the incumbent stays."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.worker.driver import StudyDriver
from ledger import reads
from ledger.conversion_records import Conversion
from ledger.records import ArtifactRole, AttemptKind, CommandVerb, Incumbent, Json, TrialKind
from ledger.states import AttemptState, ConversionState, Reason, StudyState
from tests.acceptance.lab import Lab, evaluate
from tests.acceptance.test_conversions import FIGURES, ITEMS, conversions, study

INT8: dict[str, Json] = {"quantize": "int8"}


def incumbent(lab: Lab) -> Incumbent:
    with lab.service() as service, service.ledger.read() as session:
        found = reads.latest_incumbent(session, "toy")
    assert found is not None
    return found


def by_hand(lab: Lab, study_id: str) -> None:
    wanted: dict[str, Json] = {**INT8, "margin": 0.4, "python": str(lab.base / "converter")}
    candidate = incumbent(lab).candidate_id
    asked: dict[str, Json] = {"candidate_id": candidate, "convert": wanted}
    lab.ask(study_id, CommandVerb.CONVERT, **asked)


def object_of(lab: Lab, tree: str, name: str) -> Path:
    """Where the store keeps a file of a model."""
    with lab.service() as service:
        digest = next(found[3] for found in service.store.manifest(tree) if found[0] == name)
    return lab.home / "artifacts" / "objects" / digest[:2] / digest[2:]


@contextmanager
def changed(path: Path) -> Iterator[None]:
    """Other bytes of the same length; the right ones again afterwards, for the end of every test
    looks at the whole store."""
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(bytes(len(content)))
    yield
    path.write_bytes(content)


def convert_and_wait(lab: Lab, study_id: str) -> str:
    """A worker whose conversion has begun and is held; the name of its attempt."""
    (lab.base / "hold").touch()
    lab.worker(study_id)
    lab.wait_for(lambda: any(".c-0" in name for name in lab.ran()), "it converts")
    return next(name for name in lab.ran() if ".c-0" in name)


def only(lab: Lab, study_id: str) -> Conversion:
    (found,) = conversions(lab, study_id)
    return found


def evaluate_but_not_converted() -> dict[str, Json]:
    refuse = '[ -e "$ARL_INPUTS/artifact/made" ] && { echo "weights: no such layer"; exit 43; }; '
    return {**evaluate(), "argv": ["/bin/sh", "-c", refuse + ITEMS]}


def test_a_promoted_model_that_changed_at_rest_is_not_converted(lab: Lab) -> None:
    study_id = study(lab)
    lab.drive(study_id)
    before = incumbent(lab)
    with lab.service() as service, service.ledger.read() as session:
        replays = [t for t in lab.trials(study_id, "replay") if "confirm" in (t.stage or "")]
        promoted = next(t for t in replays if t.candidate_id == before.candidate_id)
        tree = reads.find_artifact(session, promoted.id, ArtifactRole.MODEL)
    assert tree is not None
    with changed(object_of(lab, tree, "x")):
        by_hand(lab, study_id)
        assert lab.drive(study_id).state is StudyState.COMPLETED
    answer = lab.entries(study_id, "command_applied")[-1].payload
    assert answer["refused"] is True
    assert str(answer["detail"]).startswith("the promoted model cannot be converted: tree")
    assert "changed" in str(answer["detail"])
    assert (conversions(lab, study_id), incumbent(lab)) == ([], before)
    by_hand(lab, study_id)
    lab.drive(study_id)
    assert only(lab, study_id).state is ConversionState.SERVABLE, "restored, it is converted"


def test_a_converted_model_that_changed_before_it_was_measured_is_never_scored(lab: Lab) -> None:
    study_id = study(lab, INT8)
    damaged: dict[Path, bytes] = {}

    def damage(driver: StudyDriver) -> None:
        live = (t for t in driver.view.live.values() if t.kind is TrialKind.CONVERSION)
        tree = next((trial.model_digest for trial in live), None)
        if tree is not None and not damaged:
            path = object_of(lab, tree, "made")
            damaged[path] = path.read_bytes()
            path.chmod(0o644)
            path.write_bytes(bytes(len(damaged[path])))

    done = lab.drive(study_id, on_tick=damage)
    for path, content in damaged.items():
        path.write_bytes(content)
    assert damaged
    assert done.state is StudyState.COMPLETED
    found = only(lab, study_id)
    assert (found.state, found.reason) == (ConversionState.FAILED, Reason.ARTIFACT_CORRUPT)
    assert "changed" in found.detail


def test_what_the_evaluator_cannot_load_fails_with_its_words_and_keeps_its_figures(
    lab: Lab,
) -> None:
    """As where a library writes what another one cannot read: made, measured, and then refused."""
    study_id = study(lab, INT8, evaluator=evaluate_but_not_converted())
    done = lab.drive(study_id)
    assert (done.state, done.detail) == (StudyState.COMPLETED, "promoted; converted: int8 failed")
    found = only(lab, study_id)
    assert (found.state, found.reason) == (ConversionState.FAILED, Reason.OUTPUT_REFUSED)
    assert "weights: no such layer" in found.detail
    (measured,) = found.evidence["measured"]  # type: ignore[misc]  # a list of one
    assert measured["converted"] == FIGURES
    assert incumbent(lab).candidate_id == found.candidate_id


def test_a_conversion_whose_machine_dies_is_made_again(lab: Lab) -> None:
    study_id = study(lab, INT8)
    name = convert_and_wait(lab, study_id)
    os.kill(lab.record(name)["subreaper"][0], signal.SIGKILL)
    (lab.base / "hold").unlink()
    lab.wait_for(lambda: lab.study(study_id).state is StudyState.COMPLETED, "it is over")
    assert only(lab, study_id).state is ConversionState.SERVABLE
    (trial,) = lab.trials(study_id, "conversion")
    made = [a for a in lab.attempts(study_id) if a.trial_id == trial.id]
    made = [a for a in made if a.kind is AttemptKind.CONVERT]
    assert [(a.index, a.state) for a in made] == [
        (0, AttemptState.LOST),
        (1, AttemptState.COLLECTED),
    ]


def on_a_gpu(lab: Lab) -> str:
    """A study whose attempts reserve far more of its GPU hours than they take."""
    lab.environment["ARL_GPUS"] = "0"
    resources = {"cpus": 0.1, "gpus": 1, "wall_time": "60s"}
    budget = {"trials": 4, "gpu_hours": 10}
    return study(lab, resources=resources, budget=budget, parallel=1)


def test_a_conversion_that_the_budget_does_not_cover_says_which(lab: Lab) -> None:
    study_id = on_a_gpu(lab)
    assert lab.drive(study_id).detail == "promoted"
    lab.ask(study_id, CommandVerb.EXTEND, gpu_s={"to": 30.0})
    lab.drive(study_id)
    before = incumbent(lab)
    by_hand(lab, study_id)
    done = lab.drive(study_id)
    found = only(lab, study_id)
    assert (found.state, found.reason) == (ConversionState.FAILED, Reason.BUDGET_GPU_HOURS)
    assert "budget gpu_s: 60 more would pass the limit of 30" in found.detail
    assert f"`arl extend {study_id}` raises it" in found.detail
    assert (done.state, incumbent(lab)) == (StudyState.COMPLETED, before)
