"""The example study of a real training run: valid as shipped, sound, and its baseline shown."""

import shutil
from pathlib import Path

import pytest

import controller.cli
from controller.spec.loading import load_study
from controller.spec.study import StudySpec
from inner_trials import demo_task, prepare, sft
from inner_trials.settings import read_settings
from tests.integration.sft_runs import EVALUATOR

EXAMPLE = Path(controller.cli.__file__).parent / "example" / "sort"


@pytest.fixture
def study(tmp_path: Path) -> tuple[Path, StudySpec]:
    shutil.copytree(EXAMPLE, tmp_path / "sort")
    demo_task.write_task(tmp_path / "sort")
    shutil.copy(EVALUATOR, tmp_path / "sort" / "evaluator" / "evaluate.py")
    return tmp_path / "sort", load_study(tmp_path / "sort" / "study.yaml")


def test_every_setting_and_choice_is_one_that_the_program_takes(
    study: tuple[Path, StudySpec],
) -> None:
    _, spec = study
    for schedule in ("constant_with_warmup", "linear", "cosine"):
        parameters = {"learning_rate": 1e-2, "warmup_steps": 40, "lr_scheduler_type": schedule}
        assert set(parameters) == set(spec.space)
        read = read_settings(
            sft.Settings, {"options": spec.program.options, "parameters": parameters}
        )
        assert (read.max_steps, read.lr_scheduler_type) == (100, schedule)


def test_its_data_is_sound_and_free_of_leaks(study: tuple[Path, StudySpec]) -> None:
    directory, spec = study
    inputs = {"base": directory / "base", "train": directory / spec.program.data["train"]}
    for name, path in spec.evaluator.splits.items():
        inputs[f"split_{name}"] = directory / "evaluator" / path
    report = prepare.inspect(prepare.Settings(program="sft"), inputs)
    assert report["rows"] == {"train": 2000}
    assert report["uninspected"] == {}


def test_it_declares_what_the_evaluator_writes_and_guards_one_of_it(
    study: tuple[Path, StudySpec],
) -> None:
    _, spec = study
    assert set(spec.evaluator.metrics) == {"exact_match", "format_ok"}
    assert spec.promotion is not None
    assert set(spec.promotion.guard) == {"format_ok"}
    assert "seed" not in spec.space
