"""Where a benchmark works and what it writes: its figures, and the machine they are of."""

import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

BENCH: Final = Path(__file__).resolve().parent.parent / ".bench"
"""Where the other systems are installed, and work is done unless another place is named."""


@contextmanager
def working(name: str, below: Path | None = None) -> Iterator[Path]:
    """A folder of this run's own, on the disk that is measured; gone afterwards."""
    folder = (below or BENCH / "work") / f"{name}-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "load_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def write_report(path: Path | None, report: object) -> None:
    """As JSON, if a file was asked for."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1) + "\n")
