"""What the architecture tests look at, read once."""

import subprocess

import pytest

from tests.architecture.project_sources import FOLDERS, ROOT, Source


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    found = [
        Source(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    assert len(found) > 20
    return found


@pytest.fixture(scope="session")
def tracked_texts() -> dict[str, str]:
    """Every text file that git knows or would add, by path."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    texts = {}
    for name in filter(None, listing.split("\0")):
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 1_000_000:
            data = path.read_bytes()
            if b"\0" not in data:
                texts[name] = data.decode("utf-8", errors="replace")
    return texts
