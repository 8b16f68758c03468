"""Interpreters that a sandbox could not ask the first time."""

import os
import sys
from pathlib import Path

from targets import sandbox
from targets.sandbox import Sandbox, options_of


def test_an_interpreter_that_could_not_be_run_is_asked_again(tmp_path: Path) -> None:
    inside = Sandbox(str(tmp_path / "root"))
    python = tmp_path / "python"
    assert inside._interpreter(str(python)) is None
    python.symlink_to(sys.executable)
    found = inside._interpreter(str(python))
    assert found is not None
    assert os.path.realpath(found.executable) == os.path.realpath(sys.executable)


def test_a_bubblewrap_that_could_not_be_asked_for_its_options_is_asked_again(
    tmp_path: Path,
) -> None:
    bwrap = tmp_path / "bwrap"
    assert options_of(str(bwrap)) == frozenset()
    bwrap.write_text("#!/bin/sh\necho --disable-userns --size\n")
    bwrap.chmod(0o755)
    assert options_of(str(bwrap)) == frozenset(sandbox.OPTIONAL)
