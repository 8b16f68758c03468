"""What the architecture tests look at, read once."""

import shutil
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


def committed_names() -> list[str]:
    """What git knows or would add; without git or its folder, the sources and what is beside."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if shutil.which("git") and (ROOT / ".git").exists():
        listing = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True).stdout
        return [name for name in listing.decode().split("\0") if name]
    folders = [*FOLDERS, "docs", ".ci", "constraints"]
    paths = [*ROOT.iterdir(), *(p for folder in folders for p in (ROOT / folder).rglob("*"))]
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.fixture(scope="session")
def tracked_texts() -> dict[str, str]:
    """Every text file of the project, by path."""
    texts = {}
    for name in committed_names():
        path = ROOT / name
        if path.is_file() and path.stat().st_size < 1_000_000:
            data = path.read_bytes()
            if b"\0" not in data:
                texts[name] = data.decode("utf-8", errors="replace")
    return texts
