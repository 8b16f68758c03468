"""The project's own Python files, as the architecture tests see them."""

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("controller", "proposers", "targets", "ledger", "evaluator", "inner_trials")
FOLDERS = (*PACKAGES, "migrations", "benchmarks", "scripts", "examples", "tests")


@dataclass(frozen=True)
class Source:
    """One file: its path below the project's root, and what is in it."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def top(self) -> str:
        return self.path.partition("/")[0]

    @property
    def is_shipped(self) -> bool:
        """Part of the installed distribution."""
        return self.top in PACKAGES

    def imported(self) -> set[str]:
        """Dotted names of everything imported anywhere in the file."""
        names: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
        return names
