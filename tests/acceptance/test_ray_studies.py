"""Whole studies on a Ray cluster: a node that dies on the way, a controller that is killed."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.decisions import retries
from controller.wiring import Service
from ledger import reads
from ledger.errors import InvalidInput
from ledger.states import FamilyState, Reason, StudyState, TrialState
from tests.acceptance.lab import READ_X, SAVE, SCORE, Lab, evaluate
from tests.acceptance.shell_study import (
    TRAIN,
    drive,
    drive_until_held,
    open_service,
    submit,
    target_named,
)
from tests.ray_cluster import RayCluster
from tests.ray_runs import stored, wait_clean
from tests.target_runs import require_bubblewrap

pytestmark = [pytest.mark.ray, pytest.mark.timeout(300)]


def on_ray(cluster: RayCluster, base: Path, **more: Any) -> dict[str, Any]:
    """The `target` section."""
    return {"name": "ray", "sandbox": "local", **cluster.options(base), **more}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def ray_lab(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab whose promises are checked when the test is over."""
    monkeypatch.setattr(retries, "FIRST_DELAY_S", 0.02)
    made = Lab(memory_path)
    made.environment["ARL_LEASE_S"] = "5"
    for part in ("attempts", "trash"):  # where those of local attempts would be
        (made.home / "local" / part).mkdir(parents=True)
    yield made
    try:
        broken = made.broken()
    finally:
        made.close()
    assert broken == []
    assert made.complaints() == []


def noting(base: Path, behaviour: str = "") -> dict[str, Any]:
    """Programs that write down that they were started, wherever they run."""
    note = f'echo "$ARL_ATTEMPT" >> {base}/ran; '
    script = READ_X + note + behaviour + SAVE
    scores = note + 'read -r x < "$ARL_INPUTS/artifact/x"; ' + SCORE
    evaluator = {**evaluate(), "argv": ["/bin/sh", "-c", scores]}
    return {
        "program": {"kind": "command", "argv": ["/bin/sh", "-c", script]},
        "evaluator": evaluator,
    }


@pytest.mark.parametrize(
    "promotes", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_a_study_runs_on_a_cluster_in_sandboxes_from_submitted_to_its_end(
    ray_nodes: RayCluster, service: Service, tmp_path: Path, promotes: bool
) -> None:
    require_bubblewrap()
    more: dict[str, Any] = {"budget": {"trials": 2}}
    if promotes:
        more = {"promotion": {"model": "toy", "profile": "quick"}, "noise": {}}
    target = on_ray(ray_nodes, tmp_path, sandbox="bubblewrap")
    study_id = submit(service, tmp_path, parallel=6, target=target, **more)
    study = drive(service, study_id)
    assert (study.state, study.reason) == (StudyState.COMPLETED, Reason.BUDGET_TRIALS)
    with service.ledger.read() as session:
        families = reads.list_families(session, study_id)
    assert [f.state for f in families] == ([FamilyState.PROMOTED] if promotes else [])
    target = target_named(service, "ray")
    service.cleaner.close()
    assert target.list_owned(service.ledger.id) == []
    assert stored(tmp_path, "attempts") == []
    wait_clean(ray_nodes)


@pytest.mark.slow  # half a minute until Ray believes it; test_ray_faults.py loses one, too
def test_a_node_killed_on_the_way_costs_attempts_and_no_trial(
    ray_nodes: RayCluster, ray_lab: Lab
) -> None:
    base = ray_lab.base
    nodes = [ray_nodes.add_node(num_cpus=4, resources={"spot": 4}) for _ in range(2)]
    study_id = ray_lab.submit(
        budget={"trials": 6},
        parallel=4,
        target=on_ray(ray_nodes, base, resources={"spot": 1}),
        retries={"infrastructure": 5},
        **noting(base, "sleep 1; "),
    )
    worker = ray_lab.worker(study_id)
    ray_lab.wait_for(lambda: len(ray_lab.ran()) >= 6, "programs run", 90.0)
    ray_lab.wait_for(lambda: claims(base, nodes[0]), "some of them on the first node", 60.0)
    ray_nodes.kill_node(nodes[0])
    assert worker.join(150.0) == 0
    ray_nodes.kill_node(nodes[1])
    assert ray_lab.study(study_id).state is StudyState.COMPLETED
    assert [t.state for t in ray_lab.trials(study_id)] == [TrialState.COMPLETE] * 6
    why = Counter(a.reason for a in ray_lab.attempts(study_id) if a.reason is not None)
    assert why[Reason.ATTEMPT_LOST] >= 1
    assert set(why) == {Reason.ATTEMPT_LOST}
    assert max(Counter(ray_lab.ran()).values()) == 1, "each attempt was started once"


def claims(base: Path, node: str) -> list[str]:
    """Attempts that a node has claimed and not ended."""
    found = []
    for name in stored(base, "attempts"):
        place = base / "shared" / "attempts" / name
        try:
            claim = json.loads((place / "claim").read_bytes())
        except (OSError, ValueError):
            continue
        if claim.get("node") == node and not (place / "record").exists():
            found.append(name)
    return found


def test_a_killed_controllers_attempts_are_adopted_and_nothing_runs_twice(
    ray_nodes: RayCluster, ray_lab: Lab
) -> None:
    base = ray_lab.base
    study_id = ray_lab.submit(
        budget={"trials": 4},
        parallel=4,
        target=on_ray(ray_nodes, base),
        **noting(base, f"while [ ! -e {base}/go ]; do sleep 0.05; done; "),
    )
    worker = ray_lab.worker(study_id)
    ray_lab.wait_for(lambda: ray_lab.ran(), "a program runs", 60.0)
    worker.kill()
    again = ray_lab.worker(study_id, ARL_HOST="another")
    (base / "go").touch()
    assert again.join(150.0) == 0
    assert ray_lab.study(study_id).state is StudyState.COMPLETED
    assert [t.state for t in ray_lab.trials(study_id)] == [TrialState.COMPLETE] * 4
    assert {a.reason for a in ray_lab.attempts(study_id)} == {None}
    assert max(Counter(ray_lab.ran()).values()) == 1


@pytest.mark.slow
def test_a_study_waits_with_the_reason_while_no_node_can_hold_a_trial(
    ray_nodes: RayCluster, service: Service, tmp_path: Path
) -> None:
    target = on_ray(ray_nodes, tmp_path, resources={"late": 1})
    study_id = submit(service, tmp_path, target=target, budget={"trials": 1})
    study = drive_until_held(service, study_id)
    assert (study.state, study.reason) == (StudyState.PAUSED, Reason.TARGET_UNAVAILABLE)
    assert "no node of the cluster has" in (study.detail or "")
    assert "late 1" in (study.detail or "")
    node = ray_nodes.add_node(num_cpus=2, resources={"late": 1})
    assert drive(service, study_id).state is StudyState.COMPLETED, "it goes on by itself"
    ray_nodes.kill_node(node)


def test_code_that_a_model_writes_is_refused_without_a_sandbox_on_the_nodes(
    ray_nodes: RayCluster, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "train.sh").write_text(TRAIN)
    program = {
        "kind": "command",
        "argv": ["/bin/sh", "train.sh"],
        "source": "./source",
        "mutable": ["train.sh"],
        "mutable_reason": "it says how to train, not what a model is",
    }
    refused = on_ray(ray_nodes, tmp_path)
    with pytest.raises(InvalidInput, match=r"target.name 'ray': program.mutable"):
        submit(service, tmp_path, target=refused, program=program)
    held = on_ray(ray_nodes, tmp_path, sandbox="bubblewrap")
    assert submit(service, tmp_path, target=held, program=program)
