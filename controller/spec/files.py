"""Whether the files a study names are there."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controller.spec.errors import Problem, StudyRefused, path, shown
from controller.spec.interpreters import missing_interpreters
from controller.spec.study import StudySpec
from evaluator.program_files import program_names
from proposers.registry import find_proposer, parts

DEFAULT_PROGRAM: Final = "evaluate.py"
"""What a bundle without an argv holds."""


def resolve(base: Path, name: str) -> Path:
    """The absolute path of what a study file in the directory `base` calls `name`."""
    return Path(os.path.abspath(base / name))


def check_files(spec: StudySpec, base: Path) -> None:
    """Raises StudyRefused naming every file or directory that is missing; relative paths start
    at `base`, the study file's directory."""
    problems = list(missing_files(spec, base))
    if problems:
        raise StudyRefused(problems)


def missing_files(spec: StudySpec, base: Path) -> Iterator[Problem]:
    """One problem for each file or directory that is not there, or of the wrong kind."""
    program, evaluator = spec.program, spec.evaluator
    yield from missing_interpreters(spec, base)
    yield from _directory("program.base", program.base, base)
    yield from _directory("program.source", program.source, base)
    if program.brief is not None:
        yield from _file("program.brief", resolve(base, program.brief), base)
    if program.source is not None:
        source = resolve(base, program.source)
        for index, name in enumerate(program.mutable):
            yield from _file(f"program.mutable[{index}]", source / name, source)
    for name, value in program.data.items():
        yield from _anything(path("program", "data", name), resolve(base, value), value)
    yield from _directory("evaluator.bundle", evaluator.bundle, base)
    below = base if evaluator.bundle is None else resolve(base, evaluator.bundle)
    for split, value in evaluator.splits.items():
        yield from _anything(f"evaluator.splits.{split}", resolve(below, value), value)
    if evaluator.bundle is not None and evaluator.argv is None and below.is_dir():
        yield from _file("evaluator.argv", below / DEFAULT_PROGRAM, below)
    if evaluator.program is not None:
        yield from _built_in(evaluator.program)
    yield from _named_by_options(spec)


def _named_by_options(spec: StudySpec) -> Iterator[Problem]:
    name, options = spec.proposer.name, spec.proposer.options
    for part in parts(name, options):
        for option in find_proposer(part.name).options.FILES:
            value = part.options.get(option)
            if isinstance(value, str) and value.startswith("/") and not Path(value).is_file():
                field = f"proposer.options.{part.where}{option}"
                yield _missing(field, Path(value), value, "file")


def _directory(field: str, value: str | None, base: Path) -> Iterator[Problem]:
    if value is None:
        return
    found = resolve(base, value)
    if not _exists(found):
        yield _missing(field, found, value, "directory")
    elif not found.is_dir():
        yield Problem(field, f"{found} is not a directory", "name a directory", shown(value))


def _anything(field: str, found: Path, value: str) -> Iterator[Problem]:
    if not _exists(found):
        yield _missing(field, found, value, "file or directory")


def _file(field: str, found: Path, parent: Path) -> Iterator[Problem]:
    if _exists(parent) and (not _exists(found) or not found.is_file()):
        yield _missing(field, found, found.name, "file")


def _built_in(name: str) -> Iterator[Problem]:
    known = program_names()
    if name not in known:
        yield Problem(
            "evaluator.program",
            "there is no such built-in evaluator",
            f"write one of {', '.join(known)}, or a bundle",
            shown(name),
        )


def _missing(field: str, found: Path, value: str, kind: str) -> Problem:
    return Problem(
        field, f"there is no {kind} {found}", f"create it or name another {kind}", shown(value)
    )


def _exists(found: Path) -> bool:
    """False too for a name no file can have, and for a place this user may not look into."""
    try:
        return found.exists()
    except (OSError, ValueError):
        return False
