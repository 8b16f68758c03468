"""The example studies of a real language model: sound as shipped, and really run."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.spec.loading import load_study
from examples.smollm2 import make_inputs
from inner_trials import demo_task, prepare
from inner_trials.grpo_settings import Settings as GrpoSettings
from inner_trials.settings import read_settings
from inner_trials.sft import Settings as SftSettings
from tests.cli_runs import Arl, arl_in
from tests.integration.sft_runs import ROOT

PROGRAMS = {"sft": SftSettings, "grpo": GrpoSettings}
ITEMS = 32
"""Of the slow test's search split."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The studies around the demo's tiny base in place of the real one."""
    directory = tmp_path_factory.mktemp("smollm2")
    demo_task.write_base(directory / "base")
    demo_task.write_tokenizer(directory / "base")
    make_inputs.write_study(directory, directory / "base")
    (directory / "adapter").mkdir()
    return directory


@pytest.fixture
def arl(tmp_path: Path) -> Iterator[Arl]:
    with arl_in(tmp_path) as found:
        yield found


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_arl_plans_it_and_its_program_takes_every_setting(made: Path, name: str, arl: Arl) -> None:
    price = arl.ok("plan", str(made / f"{name}.yaml"), "--json").json()
    assert price["search_trials"] == 4
    spec = load_study(made / f"{name}.yaml")
    defaults = {parameter: declared.default for parameter, declared in spec.space.items()}
    read_settings(PROGRAMS[name], {"options": spec.program.options, "parameters": defaults})


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_its_sums_are_sound_and_free_of_leaks_in_either_order(made: Path, name: str) -> None:
    spec = load_study(made / f"{name}.yaml")
    inputs = {"base": made / "base", "train": made / spec.program.data["train"]}
    for split, named in spec.evaluator.splits.items():
        inputs[f"split_{split}"] = made / "evaluator" / named
    report = prepare.inspect(prepare.Settings(program=name), inputs)
    assert report["rows"] == {"train": 1024}
    assert report["uninspected"] == {}
    seen: set[frozenset[str]] = set()
    for path in sorted(made.rglob("*.jsonl")):
        asked = {frozenset(row["prompt"][-1]["content"].split(" + ")) for row in rows_of(path)}
        assert not asked & seen, path.name
        seen |= asked


def rows_of(path: Path) -> list[dict[str, list[dict[str, str]]]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_where_pip_has_no_package_one_line_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    argv = [sys.executable, "-m", "examples.smollm2.make_inputs", str(tmp_path / "made")]
    done = subprocess.run(
        [*argv, "--wheels", str(tmp_path / "empty")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "pip cannot get the packages of packages.txt (93 MB)" in done.stderr
    assert "write --wheels DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_its_page_is_short_and_says_how_to_make_it() -> None:
    lines = (ROOT / "examples" / "smollm2" / "README.md").read_text().splitlines()
    assert len(lines) <= 24
    assert any("python -m examples.smollm2.make_inputs" in line for line in lines)


@pytest.mark.slow
@pytest.mark.train
@pytest.mark.timeout(3600)
def test_a_real_model_learns_sums_by_sft_and_goes_on_by_grpo(arl: Arl, tmp_path: Path) -> None:
    made = tmp_path / "made"
    make = [sys.executable, "-m", "examples.smollm2.make_inputs", str(made)]
    subprocess.run(make, cwd=ROOT, check=True, timeout=1200)
    split = made / "evaluator" / "search.jsonl"
    split.write_text("".join(split.read_text().splitlines(keepends=True)[:ITEMS]))
    scores = {}
    for name, steps in (("sft", 5), ("grpo", 8)):
        study = made / f"{name}.yaml"
        small = study.read_text().partition("promotion:")[0]
        small = small.replace("trials: 4", "trials: 1").replace(
            f"max_steps: {steps}", f"max_steps: {steps // 2}"
        )
        study.write_text(small + "noise: {baseline_trials: 2}\n")
        with arl.start("run", str(study), OMP_NUM_THREADS="1") as process:
            out, err = process.communicate(timeout=1500)
        assert process.returncode == 0, f"{out}\n{err}"
        trials = arl.ok("export", "last", "--format", "json").json()
        assert [trial["kind"] for trial in trials].count("search") == 1
        scores[name] = max(trial["value"] for trial in trials)
    # The base writes sentences: 0 of 128. A few demonstrations give it the form, and some sums.
    assert scores["sft"] > 0.05
    assert scores["grpo"] > 0.05
