"""Built-in programs promoted for good: every link of the lineage is there, or nothing is."""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.cli import front
from controller.decisions.lineage import LINKS
from controller.registry.checking import check_promotions
from controller.registry.making import make_evidence
from controller.wiring import Service
from inner_trials import demo_task
from ledger import reads
from ledger.records import Incumbent
from ledger.registry_reads import find_sealed
from ledger.states import FamilyState, Reason
from tests.acceptance.shell_study import drive, open_service, submit

pytestmark = pytest.mark.train

EVALUATE = (
    "import json, os, struct\n"
    "path = os.environ['ARL_INPUTS'] + '/artifact/model.safetensors'\n"
    "data = open(path, 'rb').read()\n"
    "header = struct.unpack('<Q', data[:8])[0]\n"
    "rows = memoryview(data[8 + header:][:4096]).cast('f')\n"
    "score = min(1.0, sum(abs(x) for x in rows) / len(rows))\n"
    "os.write(int(os.environ['ARL_SCORE_FD']), "
    "json.dumps({'metrics': {'size': score}}).encode())\n"
)
"""A score that is a property of the trained weights, and takes no training library."""


def study(service: Service, base: Path, **options: Any) -> str:
    """Tiny SFT trials: a larger learning rate moves the weights further, whatever the seed."""
    demo_task.write_task(base)
    fixed = {"max_steps": 2, "per_device_train_batch_size": 4, "max_length": 64, **options}
    return submit(
        service,
        base,
        name="sft",
        objective={"metric": "size", "direction": "maximize"},
        program={
            "kind": "sft",
            "base": "./base",
            "data": {"train": "./data"},
            "options": fixed,
        },
        space={
            "learning_rate": {
                "type": "categorical",
                "choices": [1e-5, 0.1],
                "default": 1e-5,
            }
        },
        proposer={"name": "grid"},
        evaluator={
            "bundle": "./evaluator",
            "argv": ["{python}", "-I", "-c", EVALUATE],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"size": {"low": 0, "high": 1}},
        },
        noise={},
        promotion={"model": "tiny", "profile": "quick"},
        parallel=2,
        budget={"trials": 2},
        resources={"cpus": 0.5, "wall_time": "20m"},
    )


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    opened = open_service(tmp_path)
    yield opened
    opened.close()


def promoted(service: Service) -> Incumbent:
    with service.ledger.read() as session:
        found = reads.latest_incumbent(session, "tiny")
    assert found is not None
    return found


@pytest.mark.slow
def test_an_sft_model_is_promoted_with_every_link_and_repeated_by_a_stranger(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive(service, study(service, tmp_path))
    pointer = promoted(service)
    with service.ledger.read() as session:
        sealed = find_sealed(session, pointer)
    assert sealed is not None
    links = sealed.entry.lineage
    not_for_sft = {"reward", "sampling", "policy_versions", "image"}
    assert {name for name in LINKS if not links.get(name)} <= not_for_sft | {"data"}
    assert set(links["data"]) == {"train"}  # type: ignore[arg-type]  # a mapping
    make_evidence(service.ledger, service.store, service.settings.home, pointer, "ann")
    checked = next(iter(check_promotions(service.ledger, service.store, [pointer])))
    assert checked.findings == []
    monkeypatch.setenv("ARL_HOME", str(service.settings.home))
    assert front.run(["reproduce", "tiny", str(tmp_path / "bundle")]) == 0
    repeated = repeat(tmp_path / "bundle", tmp_path / "stranger")
    assert repeated["outcome"] == "same_model", repeated


def repeat(bundle: Path, place: Path) -> Any:
    """In an interpreter of its own that has the training libraries and no ARL, with another HOME:
    what a stranger has after `pip install -r requirements.txt`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    libraries = sysconfig.get_path("purelib")
    (site,) = place.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(libraries + "\n")  # a plain path: no .pth in it counts
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(place), "LANG": "C.UTF-8"}
    python = str(place / "bin" / "python")
    absent = subprocess.run([python, "-c", "import controller"], env=clean, cwd="/", check=False)
    assert absent.returncode != 0
    done = subprocess.run(
        [python, "reproduce.py", "--python", python, "--json"],
        cwd=bundle,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_missing_link_blocks_the_promotion_and_is_named(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the program is of a version that recorded nothing."""
    monkeypatch.setattr("controller.steps.lineage.read_facts", lambda store, tree: {})
    study_id = study(service, tmp_path)
    ended = drive(service, study_id)
    with service.ledger.read() as session:
        families = reads.list_families(session, study_id)
        assert reads.latest_incumbent(session, "tiny") is None
    assert [(f.state, f.reason) for f in families] == [
        (FamilyState.DECLINED, Reason.LINEAGE_INCOMPLETE)
    ]
    assert "the optimizer configuration" in ended.detail
    assert "the versions of the training libraries" in ended.detail
    assert "the base revision" not in ended.detail
