"""Interpreters that a study names: of this machine, or inside the image that it runs in."""

import os
import sys
from pathlib import Path

import pytest

from controller.spec.interpreters import missing_interpreters, placed_interpreters
from controller.spec.loading import parse_study
from controller.spec.study import StudySpec
from tests.unit.controller.study_documents import SFT, changed

INSIDE = "/opt/image/bin/python"


def study(**changes: object) -> StudySpec:
    return parse_study(changed(SFT, **changes))


def said(spec: StudySpec, base: Path) -> list[str]:
    return [str(problem) for problem in missing_interpreters(spec, base)]


def test_one_of_this_machine_must_be_here(tmp_path: Path) -> None:
    spec = study(
        program__python="no-such-python",
        evaluator__python="venv/bin/python",
        convert=[{"quantize": "int8", "python": INSIDE}],
    )
    first, second, third = said(spec, tmp_path)
    assert first.startswith('program.python: "no-such-python": no such program on PATH')
    assert f"{tmp_path}/venv/bin/python is not an executable file" in second
    assert third.startswith(f'convert[0].python: "{INSIDE}": {INSIDE} is not an executable file')


def test_one_inside_an_image_is_not_looked_for_here(tmp_path: Path) -> None:
    spec = study(
        target={"name": "docker", "image": "trial:1"},
        program__python="python3.99",
        evaluator__python=INSIDE,
        convert=[{"quantize": "int8", "python": INSIDE}],
    )
    assert said(spec, tmp_path) == []


def test_evaluations_outside_of_the_image_need_theirs_here(tmp_path: Path) -> None:
    spec = study(
        target={"name": "docker", "image": "trial:1"},
        evaluator__target="local",
        evaluator__python=INSIDE,
    )
    (problem,) = said(spec, tmp_path)
    assert problem.startswith(f'evaluator.python: "{INSIDE}": {INSIDE} is not an executable')


def test_inside_an_image_no_path_starts_at_the_study_file(tmp_path: Path) -> None:
    spec = study(
        target={"name": "docker", "image": "trial:1"},
        convert=[{"quantize": "int8", "python": "venv/bin/python"}],
    )
    (problem,) = said(spec, tmp_path)
    assert problem.startswith('convert[0].python: "venv/bin/python": it runs in the image trial:1')
    assert "write its whole path inside the image" in problem


@pytest.mark.parametrize("name", ["python3", INSIDE, "venv/bin/python"])
def test_a_path_is_kept_whole_and_a_name_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    placed = placed_interpreters(
        study(
            program__python=name,
            evaluator__python=name,
            convert=[{"quantize": "int8", "python": name}],
        ),
        tmp_path,
    )
    expected = os.path.join(tmp_path, name) if os.sep in name else name
    found = (placed.program.python, placed.evaluator.python, placed.convert[0].python)
    assert found == (expected,) * 3
