"""The table from reported pain to tests names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "reported-pain.md"


def test_every_test_that_the_table_of_reported_pain_names_exists() -> None:
    missing, last = [], ""
    named = re.findall(r"`([^`]+\.py|[^`]+::test_\w+)`", TABLE.read_text(encoding="utf-8"))
    for name in named:
        file, _, test = name.partition("::")
        last = file = last if file == "…" else file
        path = ROOT / file if file.startswith("tests/") else Path(__file__).with_name(file)
        if not path.exists() or f"def {test}" not in path.read_text(encoding="utf-8"):
            missing.append(name)
    assert len(named) > 50
    assert missing == []
