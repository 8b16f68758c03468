"""docs/planner.md says what the planner does."""

import subprocess
import sys

from tests.architecture.project_sources import ROOT


def test_the_planner_s_page_is_made_of_its_axes_and_rules() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "planner_page.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
