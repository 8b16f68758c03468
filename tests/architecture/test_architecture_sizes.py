"""Files and functions stay small; what is larger is listed here and may only shrink."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping

from tests.architecture.project_sources import ROOT, Source

FILE_LINES, TEST_FILE_LINES, FUNCTION_LINES, COMPLEXITY = 300, 500, 50, 8
SLACK = 20
"""A listed file that shrank by more than this has its entry lowered."""

LARGE_FILES: Mapping[str, int] = {"ledger/records.py": 320}
"""Vocabulary: one short class after another, read by looking a word up."""
LARGE_FUNCTIONS: Mapping[str, int] = {}
COMPLEX_FUNCTIONS: frozenset[str] = frozenset()


def excess(measured: Mapping[str, int], limits: Mapping[str, int], default: int) -> list[str]:
    """What is over its limit, and which listed limits are out of date."""
    over = [
        f"{name}: {size} lines, at most {limits.get(name, default)}: split it"
        for name, size in measured.items()
        if size > limits.get(name, default)
    ]
    stale = [
        f"{name}: listed with {limit}, has {measured.get(name, 0)}: lower or delete its entry"
        for name, limit in limits.items()
        if measured.get(name, 0) < max(limit - SLACK, default)
    ]
    return over + stale


def functions(source: Source) -> Iterator[tuple[str, int]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{source.path}:{node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_files_stay_small(sources: list[Source]) -> None:
    sizes = {
        s.path: s.text.count("\n")
        for s in sources
        if s.top != "tests" and "/versions/" not in s.path
    }
    assert excess(sizes, LARGE_FILES, FILE_LINES) == []


def test_test_files_stay_readable(sources: list[Source]) -> None:
    sizes = {s.path: s.text.count("\n") for s in sources if s.top == "tests"}
    assert excess(sizes, {}, TEST_FILE_LINES) == []


def test_functions_stay_short(sources: list[Source]) -> None:
    sizes = {
        name: lines
        for s in sources
        if s.top != "tests" and "/versions/" not in s.path
        for name, lines in functions(s)
    }
    assert excess(sizes, LARGE_FUNCTIONS, FUNCTION_LINES) == []


def test_functions_stay_simple() -> None:
    limit = f"lint.mccabe.max-complexity={COMPLEXITY}"
    argv = [sys.executable, "-m", "ruff", "check", ".", "--select", "C901", "--isolated"]
    argv += ["--config", limit, "--output-format", "json", "--exclude", "tests"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    complex_ones = {
        f"{found['filename'].removeprefix(f'{ROOT}/')}: {found['message']}"
        for found in json.loads(done.stdout)
    }
    assert complex_ones - COMPLEX_FUNCTIONS == set()
    assert COMPLEX_FUNCTIONS - complex_ones == set(), "delete these: they became simple"


def test_a_ratchet_notices_growth_and_shrinkage() -> None:
    assert excess({"a": 301}, {}, 300) != []
    assert excess({"a": 351}, {"a": 350}, 300) != []
    assert excess({"a": 320}, {"a": 350}, 300) != []
    assert excess({}, {"a": 350}, 300) != []
    assert excess({"a": 340, "b": 300}, {"a": 350}, 300) == []
