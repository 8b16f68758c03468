"""Which values of a study name files and directories beside its file."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from controller.spec.study import StudySpec

Keys: TypeAlias = tuple[str, ...]
"""Where a value is in the document."""


def named_paths(spec: StudySpec) -> Iterator[tuple[Keys, str]]:
    """Where and what, of everything that a study looks for beside its file."""
    program, evaluator = spec.program, spec.evaluator
    named: Mapping[Keys, str | None] = {
        ("program", "base"): program.base,
        ("program", "source"): program.source,
        ("program", "brief"): program.brief,
        ("evaluator", "bundle"): evaluator.bundle,
    }
    yield from ((keys, value) for keys, value in named.items() if value is not None)
    for name, value in program.data.items():
        yield ("program", "data", name), value
    if evaluator.bundle is None:
        for split, value in evaluator.splits.items():
            yield ("evaluator", "splits", split), value
