"""The built-in evaluator programs as the files of a bundle."""

from importlib.resources import files
from typing import Final

from evaluator.protocol import PROGRAM_FILE
from ledger.errors import UnknownName

BY_ENDPOINT: Final = "by_endpoint.py"
"""Asks a bundle's program what to ask a served model, and has it score the answers; of ARL, and
never part of a bundle."""
_NO_PROGRAMS: Final = frozenset(
    {"__init__.py", "answers.py", "quantised.py", "scoring.py", "speed.py", BY_ENDPOINT}
)
_ALONE: Final = "exact_match"
"""One file that needs no other of ours, to be copied and changed."""
_FORMATS: Final = "quantised.py"
"""Beside it, what it takes to read a converted model."""
_MEASURING: Final = "speed"
# A program is mounted alone: it brings the modules of ours that it may import.
_CARRIED: Final = (
    ("inner_trials", "__init__.py"),
    ("inner_trials", "contract.py"),
    ("inner_trials", "reporting.py"),
)
_SHARED: Final = ("__init__.py", "exact_match.py", "pair_accuracy.py", _FORMATS, "scoring.py")
_LAUNCHER: Final = """\
\"\"\"Runs a built-in evaluator program; isolated mode leaves its directory out of the path.\"\"\"

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
runpy.run_module("evaluator.programs.{name}", run_name="__main__")
"""


def program_names() -> list[str]:
    """The built-in programs, in order."""
    return sorted(
        entry.name.removesuffix(".py")
        for entry in files("evaluator.programs").iterdir()
        if entry.name.endswith(".py") and entry.name not in _NO_PROGRAMS
    )


def program_source(file: str) -> bytes:
    """One of the programs' files as it is installed."""
    return (files("evaluator.programs") / file).read_bytes()


def program_files(name: str) -> dict[str, bytes]:
    """A built-in program as `evaluate.py`, and beside it what it may import, by path.

    Raises:
        UnknownName: there is no such program.
    """
    programs = files("evaluator.programs")
    source = programs / f"{name}.py"
    known = program_names()
    if name not in known:
        raise UnknownName(
            f"evaluator.program is {name!r}, but the built-in ones are: {', '.join(known)}"
        )
    contents = {"answers.py": (programs / "answers.py").read_bytes()}
    for package, file in _CARRIED:
        contents[f"{package}/{file}"] = (files(package) / file).read_bytes()
    if name == _ALONE:
        beside = {_FORMATS: (programs / _FORMATS).read_bytes()}
        return {PROGRAM_FILE: source.read_bytes(), **beside, **contents}
    return contents | _launched(name)


def measuring_files() -> dict[str, bytes]:
    """The program that measures a converted model beside the unconverted one."""
    return _launched(_MEASURING)


def _launched(name: str) -> dict[str, bytes]:
    programs = files("evaluator.programs")
    contents: dict[str, bytes] = {}
    contents["evaluator/__init__.py"] = (files("evaluator") / "__init__.py").read_bytes()
    for file in {*_SHARED, f"{name}.py"}:
        contents[f"evaluator/programs/{file}"] = (programs / file).read_bytes()
    return {PROGRAM_FILE: _LAUNCHER.format(name=name).encode(), **contents}
