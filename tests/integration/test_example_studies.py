"""The example studies on the sorting task: valid as shipped, their data sound, and really run."""

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.spec.loading import load_study
from inner_trials import dpo, prepare, rejection_sampling, reward_model, sft
from inner_trials.settings import read_settings
from tests.cli_runs import Arl, arl_in
from tests.integration.sft_runs import ROOT

STUDIES = {
    "dpo/study": dpo.Settings,
    "sft_lora/study": sft.Settings,
    "qlora/study": sft.Settings,
    "reward_best_of_n/study": rejection_sampling.Settings,
    "reward_best_of_n/reward": reward_model.Settings,
}


def make_of(name: str) -> Callable[[Path], None]:
    write: Callable[[Path], None] = importlib.import_module(f"examples.{name}.make").write_study
    return write


@pytest.fixture(scope="module", params=list(STUDIES))
def study(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """The study's name and file; models that would be taught are the untrained base."""
    name, _, file = str(request.param).partition("/")
    made = tmp_path_factory.mktemp("examples") / name
    make_of(name)(made)
    shutil.copytree(made / "base", made / "reward")
    return str(request.param), made / f"{file}.yaml"


def test_arl_plans_it(study: tuple[str, Path], tmp_path: Path) -> None:
    _, file = study
    price = Arl(tmp_path).ok("plan", str(file), "--json").json()
    assert price["search_trials"] == 8


def test_every_setting_and_choice_is_one_that_its_program_takes(study: tuple[str, Path]) -> None:
    name, file = study
    spec = load_study(file)
    for parameter, declared in spec.space.items():
        for value in getattr(declared, "choices", None) or [declared.default]:  # type: ignore[union-attr]
            document = {"options": spec.program.options, "parameters": {parameter: value}}
            read = read_settings(STUDIES[name], document)  # type: ignore[type-var]
            assert getattr(read, parameter) == value


def test_its_data_is_sound_and_free_of_leaks(study: tuple[str, Path]) -> None:
    _, file = study
    spec = load_study(file)
    inputs = {name: file.parent / path for name, path in spec.program.data.items()}
    inputs["base"] = file.parent / "base"
    assert spec.evaluator.bundle is not None
    for name, path in spec.evaluator.splits.items():
        inputs[f"split_{name}"] = file.parent / spec.evaluator.bundle / path
    report = prepare.inspect(prepare.Settings(program=spec.program.kind), inputs)
    rows = report["rows"]
    assert isinstance(rows, dict)
    assert rows["train"] == 1744
    assert set(report["uninspected"]) <= {"reward"}  # type: ignore[call-overload]


def test_its_page_says_how_to_make_it_in_about_ten_lines() -> None:
    for name in {study.partition("/")[0] for study in STUDIES}:
        lines = (ROOT / "examples" / name / "README.md").read_text().splitlines()
        assert len(lines) <= 14, name
        assert any(f"python -m examples.{name}.make" in line for line in lines), name


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path) as made:
        yield made


@pytest.mark.slow
@pytest.mark.train
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", [name for name in STUDIES if not name.startswith("qlora")])
def test_a_small_search_of_it_finds_something_better_than_its_baseline(
    name: str, arl: Arl, tmp_path: Path
) -> None:
    folder, _, file = name.partition("/")
    make = [sys.executable, "-m", f"examples.{folder}.make", str(tmp_path / "made")]
    subprocess.run(make, cwd=ROOT, check=True, timeout=300)
    study = tmp_path / "made" / f"{file}.yaml"
    small = study.read_text().replace("trials: 8", "trials: 4").partition("promotion:")[0]
    study.write_text(small)
    with arl.start("run", str(study), OMP_NUM_THREADS="1") as process:
        out, err = process.communicate(timeout=1500)
    assert process.returncode == 0, f"{out}\n{err}"
    trials = arl.ok("export", "last", "--format", "json").json()
    scores = {"baseline": [], "search": []}
    for trial in trials:
        if trial["kind"] in scores and trial["value"] is not None:
            scores[trial["kind"]].append(trial["value"])
    assert len(scores["baseline"]) == 3
    assert max(scores["search"]) > max(scores["baseline"])
