"""`python -m benchmarks.proposers --quick` runs from start to end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_quick_run_writes_every_cell_and_every_table(tmp_path: Path) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "page.md"
    argv = ["--quick", "--json", str(figures), "--markdown", str(page), "--seeds", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.proposers", *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads(figures.read_text())["cells"]
    methods = {cell["method"] for cell in cells}
    assert {"random", "tpe", "cmaes", "nsga2", "sobol", "Optuna tpe"} <= methods
    assert {cell["problem"] for cell in cells} == {"sphere", "conditional", "two_valleys"}
    assert {cell["batch"] for cell in cells} == {1, 4}
    assert all(len(row) == len(cell["marks"]) for cell in cells for row in cell["regrets"])
    for title in ("one at a time", "4 at once", "beside Optuna's own", "beside random"):
        assert title in page.read_text()
