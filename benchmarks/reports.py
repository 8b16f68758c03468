"""What a benchmark writes: its figures, and the machine they are of."""

import json
import os
import platform
from pathlib import Path


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
