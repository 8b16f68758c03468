"""Pages that are made from the code are current."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_study_files_page_says_what_the_models_say() -> None:
    check = [sys.executable, str(ROOT / "scripts" / "study_reference.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_service_page_counts_the_operations_that_the_api_has() -> None:
    paths = json.loads((ROOT / "web" / "openapi.json").read_text(encoding="utf-8"))["paths"]
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    told = re.search(r"^\| operations \|.*\n\|[-|]+\n\| (\d+) \|", page, re.MULTILINE)
    assert told is not None
    assert int(told[1]) == sum(len(methods) for methods in paths.values()), (
        "docs/service.md: attack the API again (pytest tests/integration/test_api_schema.py "
        "-m slow -s) and write down what it says"
    )
