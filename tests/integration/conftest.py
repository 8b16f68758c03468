"""What the tests of training programs begin with: the demo's task, and a model tuned on it."""

from pathlib import Path

import pytest

from inner_trials import demo_task
from tests.integration import sft_runs
from tests.integration.sft_runs import Trial


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To be read only."""
    directory = tmp_path_factory.mktemp("task")
    demo_task.write_task(directory)
    return directory


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory, task: Path) -> Trial:
    """The demo's base after full fine-tuning: random weights are nothing to go on from."""
    return sft_runs.train(tmp_path_factory.mktemp("full") / "a", task)


@pytest.fixture(scope="session")
def tuned(full: Trial) -> Path:
    """Its model."""
    return full.model
