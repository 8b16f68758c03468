"""The interpreters that a study names: of this machine by path or name, or inside an image."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from controller.spec.errors import Problem, shown
from controller.spec.study import StudySpec


def interpreters(spec: StudySpec) -> Iterator[tuple[str, str | None]]:
    """Every place of a study that names an interpreter, with what it says."""
    yield "program.python", spec.program.python
    yield "evaluator.python", spec.evaluator.python
    for index, conversion in enumerate(spec.convert):
        yield f"convert[{index}].python", conversion.python


def missing_interpreters(spec: StudySpec, base: Path) -> Iterator[Problem]:
    """One problem for each that cannot be run."""
    for field, value in interpreters(spec):
        if value is not None:
            yield from interpreter_problems(spec, field, value, base)


def interpreter_problems(spec: StudySpec, field: str, value: str, base: Path) -> Iterator[Problem]:
    """What is wrong with one; `base` is where relative paths of this machine start."""
    image = _image_of(spec, field)
    if image is None:
        yield from _missing_here(field, value, base)
    elif os.sep in value and not os.path.isabs(value):
        yield Problem(
            field,
            f"it runs in the image {image}, where no path starts at the study file",
            "write its whole path inside the image, or a name that is on the image's PATH",
            shown(value),
        )


def placed_interpreters(spec: StudySpec, base: Path) -> StudySpec:
    """The study with whole paths: what runs them does not start where the study file lies."""

    def placed(value: str | None) -> str | None:
        is_path = value is not None and os.sep in value
        return os.path.abspath(base / str(value)) if is_path else value

    program, evaluator = spec.program, spec.evaluator
    return spec.model_copy(
        update={
            "program": program.model_copy(update={"python": placed(program.python)}),
            "evaluator": evaluator.model_copy(update={"python": placed(evaluator.python)}),
            "convert": tuple(
                one.model_copy(update={"python": placed(one.python)}) for one in spec.convert
            ),
        }
    )


def _image_of(spec: StudySpec, field: str) -> str | None:
    """What the interpreter that a field names runs in; None: this machine's own files."""
    if field != "evaluator.python":
        return spec.target.image
    same = spec.evaluator.target in (None, spec.target.name)
    return spec.evaluator.image or (spec.target.image if same else None)


def _missing_here(field: str, value: str, base: Path) -> Iterator[Problem]:
    if os.sep not in value:
        if shutil.which(value) is None:
            yield Problem(field, "no such program on PATH", "write its full path", shown(value))
        return
    found = Path(os.path.abspath(base / value))
    if found.is_dir() or not os.access(found, os.X_OK):
        yield Problem(
            field, f"{found} is not an executable file", "name an interpreter", shown(value)
        )
