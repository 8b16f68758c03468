"""Pages that are made from the code are current."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_study_files_page_says_what_the_models_say() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "study_reference.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
