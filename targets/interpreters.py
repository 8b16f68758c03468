"""Where a Python interpreter lives: what a sandbox must show for it to run."""

import json
import os
import shutil
import subprocess
from typing import Final, NamedTuple

from targets import layout

_PATIENCE_S: Final = 60.0
_ASK: Final = """
import json, os, sys
places = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
places.append(os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))))
places += [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
print(json.dumps([sys.executable, places]))
"""
_LINKS: Final = 40


class Interpreter(NamedTuple):
    executable: str
    """Its own path, past any shim."""
    directories: tuple[str, ...]
    """Its prefix, virtual environment included, the installation that this builds on, and the
    packages of other environments that it layers on. What such an environment has installed in
    development mode lies elsewhere and is not among them: that may be anything."""
    links: tuple[str, ...]
    """Symbolic links on the way to the real executable."""


def find_interpreter(python: str) -> Interpreter | None:
    """Ask the interpreter itself; None when there is no such one that runs."""
    found = shutil.which(python, path=layout.CLEAN_PATH)
    if found is None:
        return None
    try:
        answer = subprocess.run(
            [found, "-I", "-c", _ASK],
            capture_output=True,
            timeout=_PATIENCE_S,
            check=True,
            env={"PATH": layout.CLEAN_PATH, "LANG": "C.UTF-8"},
        ).stdout
        executable, places = json.loads(answer)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    directories = {path for place in places for path in (place, os.path.realpath(place))}
    return Interpreter(executable, tuple(sorted(directories)), tuple(_links(executable)))


def _links(path: str) -> list[str]:
    """Every link from `path` to a file that is none."""
    found: list[str] = []
    while os.path.islink(path) and len(found) < _LINKS:
        found.append(path)
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
    return found


def is_below(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or in it; both absolute and normal."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")
