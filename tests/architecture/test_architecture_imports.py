"""Imports point one way, and each privilege has one place."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.architecture.project_sources import PACKAGES, ROOT, Source

WRITERS = ("controller.steps", "controller.worker", "controller.registry", "controller.api")
ENVIRONMENT_READERS = {
    "controller/settings.py": "the settings",
    "controller/cli/example/edit/program/train.py": "a program of a trial",
    "controller/cli/example/edit/evaluator/evaluate.py": "an evaluator's program",
    "proposers/hosted_process.py": "what a hosted proposer's interpreter and libraries need",
    "targets/supervisor_link.py": "the library path that the supervisor's interpreter needs",
}
STANDALONE = ("inner_trials.contract", "inner_trials.reporting")
HEAVY = ("torch", "transformers", "trl", "datasets", "pandas", "numpy", "scipy", "pyarrow")

ASYNCHRONOUS = (
    "controller/api/events.py",
    "controller/api/feeds.py",
    "controller/api/app.py",
    "controller/api/guard.py",
    "controller/api/heads.py",
    "controller/api/streams.py",
    "controller/api/routing.py",
)


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_import_contracts_hold() -> None:
    command = str(Path(sys.executable).parent / "lint-imports")
    done = subprocess.run(
        [command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_every_package_is_shipped_checked_and_under_import_contracts() -> None:
    project = pyproject()
    shipped = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert shipped == {*PACKAGES, "migrations"}
    assert set(project["tool"]["mypy"]["packages"]) == set(PACKAGES)
    assert set(project["tool"]["importlinter"]["root_packages"]) == set(PACKAGES)


def test_only_steps_worker_registry_and_api_write_to_the_ledger(sources: list[Source]) -> None:
    offenders = [
        s.path
        for s in sources
        if s.is_shipped
        and "ledger.writes" in s.imported()
        and not s.module.startswith((*WRITERS, "ledger"))
    ]
    assert offenders == []


def test_a_trials_contract_needs_only_the_standard_library(sources: list[Source]) -> None:
    for source in sources:
        if source.module in STANDALONE:
            roots = {name.partition(".")[0] for name in source.imported()}
            assert roots <= sys.stdlib_module_names | {"inner_trials"}, source.path


def reads_environment(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in {"environ", "getenv"}
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        for node in ast.walk(tree)
    )


def test_the_environment_is_read_in_one_place(sources: list[Source]) -> None:
    """Programs inside a trial are the exception: their contract is made of variables."""
    readers = {
        s.path
        for s in sources
        if s.is_shipped
        and not s.module.startswith(("inner_trials", "evaluator.programs"))
        and reads_environment(s.tree)
    }
    assert readers <= set(ENVIRONMENT_READERS)


def test_starting_the_command_line_loads_nothing_heavy() -> None:
    code = "import sys, controller.cli; print(*(set(sys.argv[1:]) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code, *HEAVY, "sqlalchemy", "fastapi"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


def test_nothing_is_asynchronous_but_the_event_stream(sources: list[Source]) -> None:
    """Routes are plain functions; what stands around all of them speaks ASGI."""
    offenders = [
        f"{s.path}:{node.lineno}"
        for s in sources
        if s.is_shipped and s.path not in ASYNCHRONOUS
        for node in ast.walk(s.tree)
        if isinstance(node, ast.AsyncFunctionDef)
    ]
    assert offenders == []
