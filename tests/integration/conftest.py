"""What the tests of training programs begin with: the demo's task, and a model tuned on it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.registry.making import make_evidence
from controller.wiring import Service
from inner_trials import demo_task, grpo, reporting
from tests import promoted_models
from tests.acceptance.shell_study import open_service
from tests.cli_runs import Arl, arl_in
from tests.integration import sft_runs
from tests.integration.sft_runs import Trial
from tests.served_models import write_study

GRPO_OPTIONS = {
    "learning_rate": 1e-3,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "max_completion_length": 6,
    "max_length": 64,
    "temperature": 1.3,
}


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


@pytest.fixture(scope="session")
def adders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arl]:
    """A study of models to be served that ended with a promotion, of its best as `adder`. What is
    stored there is to be read only."""
    with arl_in(tmp_path_factory.mktemp("adders")) as opened:
        done = opened.run("run", write_study(opened.place))
        assert done.code == 0, done.err
        yield opened


@pytest.fixture
def run_of(task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Builds a GRPO trainer in this process, as the program would from this document."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("ARL_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("ARL_PARAMS", str(tmp_path / "params.json"))

    def make(inputs: dict[str, Path] | None = None, **options: Any) -> tuple[Any, Any, grpo.Job]:
        from transformers import PrinterCallback

        from inner_trials.grpo_events import OnlineEvents

        mounted = {"base": task / "base", "train": task / "data", **(inputs or {})}
        document = {
            "seed": 3,
            "options": {**GRPO_OPTIONS, **options},
            "inputs": {name: str(path) for name, path in mounted.items()},
        }
        (tmp_path / "params.json").write_text(json.dumps(document))
        job = grpo.prepare(reporting.document())
        events = OnlineEvents(job.alarms, cycle=job.settings.cycle)
        trainer = grpo.build_trainer(job, events)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(events)
        return trainer, events, job

    return make


@pytest.fixture(scope="session")
def promoted_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model `toy` was promoted twice, the second of them signed. To be copied."""
    place = tmp_path_factory.mktemp("promoted")
    service = open_service(place)
    _, second = promoted_models.promoted_twice(service, place)
    make_evidence(service.ledger, service.store, service.settings.home, second, "ann")
    service.close()
    return service.settings.home


@pytest.fixture
def promoted(promoted_home: Path, tmp_path: Path) -> Iterator[Service]:
    """A copy of it, open."""
    promoted_models.copied(promoted_home, tmp_path)
    service = open_service(tmp_path)
    yield service
    service.close()
