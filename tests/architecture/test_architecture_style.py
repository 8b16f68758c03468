"""House rules that the linters do not know."""

import ast
import re
import tempfile
from collections import Counter
from pathlib import Path

from tests.architecture.project_sources import ROOT, Source

VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "engine", "misc"}
VAGUE_CLASS = re.compile(r"(Manager|Engine|Helper|Utils?|Orchestrator)$")
DOCKERS_OWN_WORD = {"tests/private_engine.py", "tests/private_engine.py: Engine"}
"""What runs containers is called an engine by everyone."""
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
IGNORE = re.compile(r"#\s*type:\s*ignore(?P<code>\[[a-z, -]+\])?(?P<rest>.*)$")


def test_every_module_says_what_it_is(sources: list[Source]) -> None:
    wrong = []
    for source in sources:
        first = (ast.get_docstring(source.tree) or "").partition("\n\n")[0]
        if not first.rstrip().endswith((".", ":")):
            wrong.append(source.path)
    assert wrong == [], "each module begins with one sentence that says what it is"


def test_nothing_has_a_vague_name(sources: list[Source]) -> None:
    files = [s.path for s in sources if VAGUE & set(Path(s.path).stem.split("_"))]
    classes = [
        f"{s.path}: {node.name}"
        for s in sources
        for node in ast.walk(s.tree)
        if isinstance(node, ast.ClassDef) and VAGUE_CLASS.search(node.name)
    ]
    assert [name for name in files + classes if name not in DOCKERS_OWN_WORD] == []


def test_nothing_is_left_unfinished(sources: list[Source]) -> None:
    marks = [
        f"{s.path}:{number}"
        for s in sources
        if "architecture/" not in s.path
        for number, line in enumerate(s.text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    stubs = [
        f"{s.path}:{node.lineno}"
        for s in sources
        if s.is_shipped
        for node in ast.walk(s.tree)
        if isinstance(node, ast.Raise)
        and isinstance(name := getattr(node.exc, "func", node.exc), ast.Name)
        and name.id == "NotImplementedError"
    ]
    assert marks + stubs == []


def test_an_ignored_type_error_names_its_code_and_reason(sources: list[Source]) -> None:
    wrong = []
    for source in sources:
        for number, line in enumerate(source.text.splitlines(), 1):
            found = IGNORE.search(line)
            has_reason = found and (
                re.match(r"\s*#\s*\w+", found["rest"]) or not source.is_shipped
            )
            if found and not (found["code"] and has_reason):
                wrong.append(f"{source.path}:{number}")
    assert wrong == [], "write `# type: ignore[code]  # why` (in tests the code is enough)"


def test_test_files_have_names_of_their_own(sources: list[Source]) -> None:
    names = Counter(Path(s.path).name for s in sources if s.top == "tests")
    shared = {n for n, count in names.items() if count > 1} - {"conftest.py", "builders.py"}
    assert shared == set(), "pytest imports test files by name: make each unique"
    assert [s.path for s in sources if s.top == "tests" and s.path.endswith("__init__.py")] == []


def can_fail(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if re.match(
                r"raises$|fail$|assert|check|verify|expect|wait_|eventually|run_state_machine",
                name,
            ):
                return True
    return False


def test_every_test_can_fail_and_reads_as_a_sentence(sources: list[Source]) -> None:
    tests = [
        (s.path, node)
        for s in sources
        if Path(s.path).name.startswith("test_")
        for node in ast.walk(s.tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert [f"{path}:{t.name}" for path, t in tests if not can_fail(t)] == []
    assert [f"{path}:{t.name}" for path, t in tests if t.name.count("_") < 3] == []


EVERYWHERE = frozenset(
    ("/root", "/home", "/opt", "/srv", "/mnt", "/media", "/usr/src", "/usr/local", "/var/lib")
)
"""Where somebody may have cloned the project, and which is named in it for another reason."""


def test_no_file_names_the_place_where_it_was_written(tracked_texts: dict[str, str]) -> None:
    """Neither this checkout's path nor its neighbours' appears in what is committed; a directory
    that every machine has is no place of anybody's."""
    scratch = Path(tempfile.gettempdir())
    is_anybodys = scratch in ROOT.parents or str(ROOT.parent) in EVERYWHERE
    places = [ROOT] if is_anybodys else [ROOT, ROOT.parent]
    needles = [f"{place}/" for place in places if len(place.parts) > 1]
    offenders = [
        f"{path}: {needle}"
        for path, text in tracked_texts.items()
        for needle in needles
        if re.search(rf"(?<![\w.]){re.escape(needle)}", text)
    ]
    assert offenders == []


def test_shell_scripts_stop_at_the_first_error(tracked_texts: dict[str, str]) -> None:
    scripts = {p: t for p, t in tracked_texts.items() if t.startswith("#!/usr/bin/env bash")}
    assert len(scripts) >= 3
    assert [path for path, text in scripts.items() if "set -euo pipefail" not in text] == []
