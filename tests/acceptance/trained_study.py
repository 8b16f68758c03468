"""Studies of the real training programs on a tiny model, judged by their weights alone."""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.wiring import Service
from ledger import reads
from ledger.records import Incumbent
from tests.acceptance.shell_study import submit

EVALUATE = (
    "import json, os, struct\n"
    "path = os.environ['ARL_INPUTS'] + '/artifact/model.safetensors'\n"
    "data = open(path, 'rb').read()\n"
    "header = struct.unpack('<Q', data[:8])[0]\n"
    "rows = memoryview(data[8 + header:])\n"
    "rows = rows[: len(rows) // 4 * 4].cast('f')[::7]\n"
    "score = min(1.0, sum(abs(x) for x in rows) / len(rows))\n"
    "os.write(int(os.environ['ARL_SCORE_FD']), "
    "json.dumps({'metrics': {'size': score}}).encode())\n"
)
"""A score that is a property of the trained weights, and takes no training library."""


def submit_trained(
    service: Service,
    base: Path,
    kind: str,
    *,
    data: Mapping[str, str],
    options: Mapping[str, Any],
    **changes: Any,
) -> str:
    """A larger learning rate moves the weights further, whatever the seed: so it wins."""
    fixed = {"per_device_train_batch_size": 4, "max_length": 64, "max_steps": 2, **options}
    document: dict[str, Any] = {
        "name": kind,
        "objective": {"metric": "size", "direction": "maximize"},
        "program": {"kind": kind, "base": "./base", "data": dict(data), "options": fixed},
        "space": {
            "learning_rate": {
                "type": "categorical",
                "choices": [1e-5, 0.1],
                "default": 1e-5,
            }
        },
        "proposer": {"name": "grid"},
        "evaluator": {
            "bundle": "./evaluator",
            "argv": ["{python}", "-I", "-c", EVALUATE],
            "splits": {"search": "search.jsonl", "holdout": "holdout.jsonl"},
            "metrics": {"size": {"low": 0, "high": 1}},
        },
        "noise": {},
        "promotion": {"model": "tiny", "profile": "quick"},
        "parallel": 2,
        "budget": {"trials": 2},
        "resources": {"cpus": 0.5, "wall_time": "20m"},
    }
    return submit(service, base, **document | changes)


def promoted(service: Service) -> Incumbent:
    with service.ledger.read() as session:
        found = reads.latest_incumbent(session, "tiny")
    assert found is not None
    return found


def repeat(bundle: Path, place: Path) -> Any:
    """In an interpreter of its own that has the training libraries and no ARL, with another HOME:
    what a stranger has after `pip install -r requirements.txt`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    libraries = sysconfig.get_path("purelib")
    (site,) = place.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(libraries + "\n")  # a plain path: no .pth in it counts
    return run_bundle(bundle, place)


def run_bundle(bundle: Path, place: Path) -> Any:
    """With the interpreter of an environment that has no ARL, and HOME there."""
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(place), "LANG": "C.UTF-8"}
    python = str(place / "bin" / "python")
    absent = subprocess.run(
        [python, "-c", "import controller"], env=clean, cwd="/", check=False, capture_output=True
    )
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
