"""Twenty thousand trials go out and come in within bounded memory."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("optuna")

from controller.interchange.spool import Spool
from controller.interchange.taking_in import Described, taken
from controller.steps.importing import ReportedTrial
from ledger.database import open_ledger
from ledger.records import IntermediateValue
from ledger.states import TrialState
from tests.cli_runs import Arl
from tests.interchange_studies import record

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TRIALS = 20_000
MEMORY_BYTES = 256 * 1024**2
CPU_S = 120.0


def history() -> Iterator[ReportedTrial]:
    for number in range(TRIALS):
        curve = [IntermediateValue(step=s, metric="loss", value=s / 7) for s in range(10)]
        yield ReportedTrial(
            number=number,
            state=TrialState.COMPLETE,
            detail="",
            params={"lr": 1.0 + number, "kind": "ab"[number % 2], "n": number % 9},
            values={"loss": 1.0 / (1 + number)},
            curve=tuple(curve),
            started_at=1e9 + number,
            ended_at=1e9 + number + 0.5,
        )


def measured(arl: Arl, *arguments: str) -> float:
    """Processor seconds; asserts how much memory the process came to hold."""
    before, begun = os.times(), time.monotonic()
    program = (
        "import sys; from controller.cli.front import run\n"
        "code = run(sys.argv[1:])\n"
        # Not ru_maxrss: that begins with what the process held that started it.
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(status['VmHWM'].split()[0], file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=arl.place,
        env=arl.environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    memory = int(done.stderr.split()[-1]) * 1024
    after = os.times()
    cpu = after.children_user - before.children_user
    cpu += after.children_system - before.children_system
    wall = time.monotonic() - begun
    print(f"{arguments[0]}: {cpu:.1f} s of a core, {wall:.1f} s, {memory / 1e6:.0f} MB")
    assert memory < MEMORY_BYTES
    return cpu


def test_a_large_study_goes_there_and_back(tmp_path: Path) -> None:
    arl = Arl(tmp_path)
    ledger = open_ledger(arl.home / "ledger.db", create=True)
    described = Described(
        source="synthetic",
        location="here",
        name="large",
        origin="{}",
        metrics=("loss",),
        maximizes=(False,),
        declared={},
        notes=(),
    )
    with Spool(metrics=("loss",), maximizes=False) as spool:
        spool.fill(history())
        record(taken(spool, described), ledger)
    ledger.close()
    out = measured(arl, "export", "last", "--format", "optuna", "-o", "large.db")
    back = measured(arl, "import", "--from", "optuna", "large.db")
    checked = measured(arl, "verify")
    assert max(out, back, checked) < CPU_S
    assert arl.show()["counts"]["total"] == TRIALS
