"""Studies whose proposer runs in a process of its own, which is killed again and again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli_runs import ROOT, Arl, arl_in
from tests.hosted_proposers import is_gone_soon

KILLS = 10
GP = {"name": "gp", "options": {"startup_trials": 2}}
SPACE = {
    "x": {"type": "float", "low": 0.0, "high": 1.0},
    "kind": {"type": "categorical", "choices": ["a", "b"]},
}
WORKER = """
import json, sys
from pathlib import Path
from controller.wiring import Service
from tests.acceptance.shell_study import drive, open_service, submit
base = Path(sys.argv[1])
service = open_service(base)
study_id = submit(service, base, proposer=json.loads(sys.argv[2]), budget={"trials": 4})
proposers = []
dismiss = Service.dismiss_proposer
def look(service, study_id):
    proposers.append(service._proposers[study_id])
    dismiss(service, study_id)
Service.dismiss_proposer = look
study = drive(service, study_id)
print(study.state, study.reason, proposers[0]._process.pid)
print(sorted({"torch", "optuna", "numpy", "scipy"} & set(sys.modules)))
sys.stdin.read()
"""


def children(pid: int) -> list[int]:
    """Processes of proposers that a worker hosts now."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            command = (place / "cmdline").read_bytes()
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid and b"proposers.hosted_child" in command:
            found.append(int(place.name))
    return found


def test_the_worker_never_imports_torch_and_a_settled_study_leaves_no_process(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(tmp_path), json.dumps(GP)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    ) as worker:
        assert worker.stdout is not None
        state, reason, pid = worker.stdout.readline().split()
        assert (state, reason) == ("completed", "budget_trials")
        assert worker.stdout.readline().strip() == "[]"
        # The study is settled and its lease given back, while the worker goes on.
        assert is_gone_soon(int(pid))
        assert children(worker.pid) == []


def proposed(arl: Arl) -> list[Any]:
    document = arl.show()
    return [t["params"] for t in document["trials"] if t["kind"] == "search"]


def run(arl: Arl, kills: int) -> int:
    """`arl run` of the study, whose proposer's process is killed so often; how often it was."""
    dice = random.Random(3)
    name = arl.study(
        space=SPACE, proposer=GP, budget={"trials": 14}, noise={"baseline_trials": 2}, seed=11
    )
    done, at = 0, -1
    with arl.start("run", name) as worker:
        while worker.poll() is None:
            found = children(worker.pid)
            if not found or done == kills or (trials := count_trials(arl)) == at:
                time.sleep(0.02)
                continue
            # At most once for each proposal, sooner or later in its call or after it.
            time.sleep(dice.uniform(0.0, 3.0))
            for pid in children(worker.pid):
                os.kill(pid, signal.SIGKILL)
                done, at = done + 1, trials
        out, err = worker.communicate()
        assert worker.returncode == 0, f"{out}\n{err}"
    return done


def count_trials(arl: Arl) -> int:
    return len(arl.wait_until(lambda document: True)["trials"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_study_whose_proposer_is_killed_ten_times_proposes_what_it_would_have(
    tmp_path: Path,
) -> None:
    with arl_in(tmp_path / "straight") as arl:
        run(arl, 0)
        straight = proposed(arl)
        assert arl.show()["state"] == "completed"
    with arl_in(tmp_path / "killed") as arl:
        assert run(arl, KILLS) >= KILLS - 2
        assert arl.show()["state"] == "completed"
        assert proposed(arl) == straight
        arl.ok("verify")
    assert len(straight) == 14
