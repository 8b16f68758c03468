"""The lab that the tests of whole studies share."""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.decisions import retries
from controller.worker import conditions, driver
from tests.acceptance.lab import Lab


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A directory in memory where there is one: these tests make thousands of files, and a
    killed process loses nothing of them either way."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="arl-lab-", dir=place))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def lab(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Lab]:
    """A lab in a hurry, whose promises are checked when the test is over."""
    monkeypatch.setattr(retries, "FIRST_DELAY_S", 0.02)
    monkeypatch.setattr(driver, "COMMANDS_EVERY_S", 0.02)
    monkeypatch.setattr(driver, "CONDITION_EVERY_S", 0.1)
    monkeypatch.setattr(conditions, "CONDITION_EVERY_S", 0.1)
    made = Lab(memory_path)
    yield made
    try:
        broken = made.broken() if made.home.exists() else []
    finally:
        made.close()
    assert broken == []
    assert made.left_running() == []
    assert made.complaints() == []
    crashes = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert crashes == []
